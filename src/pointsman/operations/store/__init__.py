"""The store of a home: its state, its migration, and its copy into PostgreSQL."""
