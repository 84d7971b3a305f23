"""Shared state in Redis: counts, events and claims that may be lost and are then made again."""
