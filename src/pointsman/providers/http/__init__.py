"""One provider over HTTP: its connections, its requests and their answers."""
