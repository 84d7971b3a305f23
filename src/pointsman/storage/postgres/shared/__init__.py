"""Shared state of replicas in PostgreSQL; where there is Redis, its counts and events are there."""
