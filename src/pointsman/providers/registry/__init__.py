"""Providers and dialects by name."""
