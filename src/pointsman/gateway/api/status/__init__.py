"""Health, metrics and the description of the gateway."""
