"""Agents' jobs over HTTP."""
