"""The writer of a chain: group commit, ledger, lease, checkpoints.

Four verbs hand something to it, and mean the same in the group, the ledger and the recorder:
`append` returns a future, `hand_in` takes a waiter, `note` has no waiter, `record` blocks.
"""
