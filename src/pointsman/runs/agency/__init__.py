"""Agents at work: who is asked, what they answer, who judges, and what is recorded of it."""
