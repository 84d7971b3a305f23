"""Read a ledger back: verify, replay, backtest under another policy, export, show turns."""
