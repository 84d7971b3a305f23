"""Routing rules: conditions, text patterns and their review."""
