"""What all rooms stand on, as pure functions and ports. No clock, randomness or IO in here."""
