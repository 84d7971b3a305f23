"""The ledger as Parquet files, for analysis: what was decided, what calls cost, how turns went."""
