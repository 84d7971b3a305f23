"""Facts out of text."""
