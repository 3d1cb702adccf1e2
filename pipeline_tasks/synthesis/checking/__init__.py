"""What was written, read and measured: which of it is used, and why the rest is refused."""
