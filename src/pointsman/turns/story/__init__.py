"""A turn after the fact: its calls, and the candidates that were not asked."""
