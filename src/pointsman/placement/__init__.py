"""May this turn leave the machine? The placement table of document 001 and what feeds it."""
