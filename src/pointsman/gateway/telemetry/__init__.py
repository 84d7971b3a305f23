"""Telemetry for operators: the log, metrics and spans; no text of any message."""
