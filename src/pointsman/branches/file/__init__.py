"""Decision files as they are written."""
