"""Takes a document out of a store with all that was made of it, from every version, and proves it."""
