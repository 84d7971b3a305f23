"""Which branch does this workflow take? Document 003: decisions as data."""
