"""Model endpoints, in the vendors' formats."""
