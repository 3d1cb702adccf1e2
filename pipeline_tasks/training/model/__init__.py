"""The encoder of a training: what it starts from, what it must be able to do, how it is opened and saved."""
