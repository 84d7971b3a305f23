"""Live lives: `python -m tests.simulation --seeds 1-20`; prints one line of JSON a life."""

from tests.simulation.ambient import simulate

simulate()

from tests.simulation.running import main  # noqa: E402 - the product must not be loaded before

main()
