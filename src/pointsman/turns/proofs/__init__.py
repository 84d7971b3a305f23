"""Exact answers about all turns a policy can meet: proofs, differences, least changes. Pure."""
