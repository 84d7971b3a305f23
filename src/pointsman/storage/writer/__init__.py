"""The writer of a chain: group commit, ledger, lease, checkpoints."""
