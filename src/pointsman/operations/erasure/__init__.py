"""Erasing text from a home, under its retention and holds."""
