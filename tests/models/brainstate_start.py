"""Reads the start of a job as the HTTP API does."""

from pointsman.brainstate.bodies import GivenStart
from pointsman.brainstate.reading import start_problems
from pointsman.kernel.document import Document
from pointsman.kernel.schema import conform


def read_start(document: Document) -> GivenStart:
    """Read the start of a job, or raise with every problem at its place."""
    return conform(document, GivenStart, start_problems)
