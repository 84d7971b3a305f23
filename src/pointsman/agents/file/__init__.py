"""`agents.yaml` as it is written."""
