"""A decision looks at nothing but its arguments: everything else may be broken."""

import builtins
import os
import random
import secrets
import socket
import time
import uuid
from typing import Any, NoReturn

import pytest
from tests.replay.decide_corpus import decisions


def _poison(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise AssertionError("a decision looked at the world")


@pytest.mark.req(5, 38)
def test_decisions_come_out_the_same_with_clock_random_network_and_files_poisoned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = list(decisions())
    for module, names in {
        time: ("time", "time_ns", "monotonic", "perf_counter"),
        random: ("random", "randint", "choice"),
        secrets: ("token_bytes", "randbits"),
        uuid: ("uuid4",),
        socket: ("socket",),
        os: ("urandom", "getenv", "open", "stat"),
        builtins: ("open",),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, _poison)
    after = list(decisions())
    monkeypatch.undo()
    assert before == after
