"""The ledger over HTTP."""
