"""The short-term mind of a job: goals, memory, attention. Pure functions only. Document 004."""
