"""The command line: one module a noun, each a thin layer over the app."""
