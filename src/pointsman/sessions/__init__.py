"""Conversations: what happens to a turn between its first byte in and its last byte out."""
