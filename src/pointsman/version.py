"""The version of the package; decisions have a version of their own."""

VERSION = "0.1.0"
