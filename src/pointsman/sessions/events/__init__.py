"""The events of a session, as typed payloads."""
