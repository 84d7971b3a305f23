"""Requests for actions: made, voted on, carried out at most once."""
