"""The store of a home: its state, its tables, and the way from SQLite to PostgreSQL."""
