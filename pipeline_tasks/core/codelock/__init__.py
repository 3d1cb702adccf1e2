"""What code each step runs, and ``steps.lock``, which holds it as it was."""
