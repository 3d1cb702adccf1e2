"""What keeps a store sound, small and quick to read: checks, garbage, packs, and copies of it elsewhere."""
