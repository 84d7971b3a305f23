"""Workflows: decisions as a service, stages, and what led where."""
