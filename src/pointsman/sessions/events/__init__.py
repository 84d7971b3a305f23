"""What can happen in a session, as typed payloads."""
