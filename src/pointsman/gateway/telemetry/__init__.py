"""What operators are told: the log, counts and spans; no text of any message."""
