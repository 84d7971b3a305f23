"""What is shown of a ledger: verified, replayed, tried under another policy, exported."""
