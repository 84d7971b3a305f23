"""Budgets and costs over HTTP."""
