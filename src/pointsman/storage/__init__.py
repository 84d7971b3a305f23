"""Keeps everything on disk or on a server, as given: callers make the ids and instants."""
