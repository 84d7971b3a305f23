"""The default store: SQLite in WAL mode with full synchronisation, through apsw."""
