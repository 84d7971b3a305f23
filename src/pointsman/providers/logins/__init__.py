"""Logging in to providers that take more than a key; each vendor a module."""
