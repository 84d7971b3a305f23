"""The file `agents.yaml` as it is written."""
