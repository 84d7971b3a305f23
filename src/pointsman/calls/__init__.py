"""One call of a model, from the money set aside for it to the entry that tells how it ended."""
