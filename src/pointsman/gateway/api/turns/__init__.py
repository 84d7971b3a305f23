"""Recorded turns over HTTP."""
