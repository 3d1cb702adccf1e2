"""The ``foundry`` command."""
