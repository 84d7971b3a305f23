"""HTTP/1.1 as the gateway speaks it to its callers: connections, requests and replies."""
