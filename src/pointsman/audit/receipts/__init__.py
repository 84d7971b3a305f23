"""Receipts: one answer with all that it takes to derive its decision again, elsewhere."""
