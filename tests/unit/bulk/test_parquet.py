"""Exports to Parquet: by day, only what is new, the same files again, and no text unasked."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from tests.models.many_turns import record_turns, write_policy

from pointsman.app import Pointsman
from pointsman.bulk.parquet.export import EXPORT, export_given, export_parquet
from pointsman.bulk.parquet.files import MANIFEST, schema_of
from pointsman.bulk.parquet.tables import TABLES
from pointsman.errors import InputError
from pointsman.kernel.instant import DAY, Instant, instant_text, read_instant
from pointsman.testing import CountedIds, FrozenClock

LENGTH = 100
START = read_instant("2026-03-01T22:00:00Z")


class Clock(FrozenClock):
    """Goes on by a minute whenever it is looked at."""

    def now(self) -> Instant:
        found = super().now()
        self.advance(seconds=60)
        return found


@pytest.fixture
def pointsman(tmp_path: Path) -> Iterator[Pointsman]:
    write_policy(tmp_path / "home")
    clock = Clock(START)
    with Pointsman(tmp_path / "home", clock=clock, ids=CountedIds()) as found:
        yield found


def record(pointsman: Pointsman, first: int, end: int) -> None:
    for _ in record_turns(pointsman, first, end):
        pass


def run(pointsman: Pointsman, target: Path, **more: Any) -> Any:
    given = export_given(target, **{"length": LENGTH, **more})
    return msgspec.json.decode(export_parquet(pointsman.home, given).value)


def files(target: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(target)): path.read_bytes()
        for path in sorted(target.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }


def rows(target: Path, table: str = "decisions") -> list[dict[str, Any]]:
    paths = sorted(target.glob(f"{table}/*/*.parquet"))
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


def test_decisions_lie_in_folders_by_day(pointsman: Pointsman, tmp_path: Path) -> None:
    record(pointsman, 0, 250)
    told = run(pointsman, tmp_path / "out")
    found = files(tmp_path / "out")
    assert told["rows"]["decisions"] == len(rows(tmp_path / "out")) == 250
    days = {name.split("/")[1] for name in found}
    assert len(days) > 1
    for path in (tmp_path / "out").glob("decisions/*/*.parquet"):
        day = path.parent.name.removeprefix("day=")
        assert {
            row["recorded_at"].date().isoformat() for row in pq.ParquetFile(path).read().to_pylist()
        } == {day}
    assert not [name for name in found if "/." in name]


def test_a_second_export_writes_only_what_is_new(pointsman: Pointsman, tmp_path: Path) -> None:
    record(pointsman, 0, 250)
    run(pointsman, tmp_path / "out")
    before = files(tmp_path / "out")
    again = run(pointsman, tmp_path / "out")
    assert (again["files"], files(tmp_path / "out")) == (0, before)
    record(pointsman, 250, 320)
    more = run(pointsman, tmp_path / "out")
    after = files(tmp_path / "out")
    full = [name for name in before if "000000000000" in name or "000000000100" in name]
    assert full
    assert all(after[name] == before[name] for name in full)
    assert more["rows"]["decisions"] < 320
    ids = [row["decision_id"] for row in rows(tmp_path / "out")]
    assert len(ids) == len(set(ids)) == 320


def test_exports_in_steps_and_at_once_are_the_same_rows(
    pointsman: Pointsman, tmp_path: Path
) -> None:
    for first, end in ((0, 90), (90, 130), (130, 260)):
        record(pointsman, first, end)
        run(pointsman, tmp_path / "steps")
    run(pointsman, tmp_path / "once")
    assert rows(tmp_path / "steps") == rows(tmp_path / "once")


def test_an_export_that_was_cut_short_is_done_by_the_next(
    pointsman: Pointsman, tmp_path: Path
) -> None:
    record(pointsman, 0, 250)
    given = export_given(tmp_path / "out", length=LENGTH)
    asked = msgspec.json.encode(given)
    first, *_ = EXPORT.plan_ranges(pointsman.home, asked)
    EXPORT.part(pointsman.home, asked, first)
    run(pointsman, tmp_path / "out")
    run(pointsman, tmp_path / "whole")
    assert rows(tmp_path / "out") == rows(tmp_path / "whole")


def test_days_before_the_one_asked_for_are_left_out(pointsman: Pointsman, tmp_path: Path) -> None:
    record(pointsman, 0, 250)
    run(pointsman, tmp_path / "all")
    whole = rows(tmp_path / "all")
    last = max(row["recorded_at"] for row in whole)
    since = read_instant(last.strftime("%Y-%m-%dT%H:%M:%SZ"))
    run(pointsman, tmp_path / "out", since=since)
    wanted = [row for row in whole if row["recorded_at"].date() == last.date()]
    assert rows(tmp_path / "out") == wanted
    assert 0 < len(wanted) < 250
    assert instant_text(Instant(since - since % DAY))[:10] == last.date().isoformat()
    with pytest.raises(InputError, match="another --since"):
        run(pointsman, tmp_path / "out")


def test_text_is_there_only_when_it_is_asked_for(pointsman: Pointsman, tmp_path: Path) -> None:
    record(pointsman, 0, 30)
    run(pointsman, tmp_path / "plain")
    run(pointsman, tmp_path / "texts", has_text=True)
    assert {row["message"] for row in rows(tmp_path / "plain")} == {None}
    texts = [row["message"] for row in rows(tmp_path / "texts")]
    assert all(texts)
    assert all(len(row["message"]) == row["message_chars"] for row in rows(tmp_path / "texts"))
    raw = b"".join(files(tmp_path / "plain").values())
    assert b"checkpoint" not in raw


def test_the_export_of_another_ledger_is_refused(pointsman: Pointsman, tmp_path: Path) -> None:
    record(pointsman, 0, 5)
    run(pointsman, tmp_path / "out")
    write_policy(tmp_path / "other")
    with Pointsman(tmp_path / "other") as other, pytest.raises(InputError, match="another ledger"):
        run(other, tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="something else"):
        run(pointsman, tmp_path / "mine")


def test_every_table_has_the_columns_that_are_told() -> None:
    for table, columns in TABLES.items():
        assert schema_of(table).names == [each.name for each in columns]


def test_without_pyarrow_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name=name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError) as found:
        export_given(tmp_path)
    assert found.value.hint == "pip install 'pointsman[parquet]'"
