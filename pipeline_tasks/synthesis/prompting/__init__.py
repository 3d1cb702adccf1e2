"""What a language model is asked: prompts by intent, their variety, and the kinds of writer."""
