"""The store of learned patterns: rows, index, evidence, outcomes."""
