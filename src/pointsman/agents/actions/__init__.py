"""Governed actions on agents: their payloads, and their effects."""
