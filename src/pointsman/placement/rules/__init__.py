"""The decision table of placement and its policy rules."""
