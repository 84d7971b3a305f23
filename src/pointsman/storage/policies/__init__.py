"""The policy files of a home, read with their positions, and the policies in the ledger."""
