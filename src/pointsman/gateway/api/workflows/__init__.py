"""Workflow decisions and webhooks over HTTP."""
