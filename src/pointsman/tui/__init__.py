"""The terminal app: a conversation on a screen. It decides nothing."""
