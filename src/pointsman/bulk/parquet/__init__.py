"""The ledger as Parquet files, for analysis: decisions, costs of calls, verdicts on turns."""
