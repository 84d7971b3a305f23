"""Virtual keys over HTTP."""
