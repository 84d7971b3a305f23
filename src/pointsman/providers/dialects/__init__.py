"""The wire formats as text: bytes in, values out, and back. No sockets, no clock, no ids made."""
