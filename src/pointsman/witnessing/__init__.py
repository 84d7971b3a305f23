"""Witnesses: submitting a home's checkpoints to them, and being one."""
