"""Models: where each one's weights come from, how they get here, and the language model served on this machine."""
