"""Action requests: built, voted on, executed at most once."""
