"""Every raw request is read in one way, or refused; nothing is smuggled behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.gateway.house import Running, running, write_home
from tests.gateway.raw_http import Case, cases, fault

CASES = cases()
GROUPS = list(dict.fromkeys(case.group for case in CASES))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = {"server": {"head_timeout_s": 2, "body_timeout_s": 2}}
    home = tmp_path_factory.mktemp("raw") / "home"
    with running(write_home(home, pointsman=settings)) as found:
        yield found


@pytest.mark.parametrize("group", GROUPS)
def test_raw_requests_are_held_off(live: Running, group: str) -> None:
    tried = [case for case in CASES if case.group == group]
    assert [told for case in tried if (told := fault(live, case))] == []


def test_three_hundred_and_fifty_cases_are_tried() -> None:
    assert len({(case.group, case.name) for case in CASES}) == len(CASES) >= 350


def test_a_case_that_is_served_would_be_noticed(live: Running) -> None:
    good = Case("none", "nothing", CASES[0].data.replace(b"x\x00a: b\r\n", b""))
    assert fault(live, good)
