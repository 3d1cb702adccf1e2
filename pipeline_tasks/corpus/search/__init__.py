"""Where addresses come from: one file a provider, all behind the protocol in ``provider.py``."""
