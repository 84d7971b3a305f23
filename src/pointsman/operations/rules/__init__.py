"""The policy files of a home: check, test, reload and publish them."""
