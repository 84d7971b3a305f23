"""The stores of a home in a PostgreSQL database. Needs the extra `pointsman[postgres]`."""
