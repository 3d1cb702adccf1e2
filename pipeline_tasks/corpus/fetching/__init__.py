"""How one address is fetched from a hostile web: guard, politeness, limits, and a journal that survives a kill."""
