"""How a model folder wants to be asked, and where models run: what trains, what searches and what scores read alike."""
