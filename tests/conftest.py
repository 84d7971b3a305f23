"""What every test may ask for."""

pytest_plugins = ["tests.failed", "tests.servers"]
