"""Letters, in ways that do not change with the Python version."""

from __future__ import annotations


def ascii_lower(text: str) -> str:
    """Lower ASCII letters only: the rest of Unicode changes with the Python version."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
