"""The index of patterns against `likeness`, pair by pair."""

import random

import numpy as np
import pytest
from tests.unit.pattern_shelf import AT, PLAIN, Store, look

from pointsman.kernel.number import ONE, Billionths, MicroUsd
from pointsman.storage.stores.patterns.index import PatternIndex
from pointsman.storage.stores.patterns.look import Look
from pointsman.storage.stores.patterns.writing import ImportRow
from pointsman.turns.learning.fingerprint import (
    DIMENSIONS,
    PEAK,
    Fingerprint,
    fingerprint_id,
    hashed_vector,
    likeness,
)
from pointsman.turns.learning.pattern_row import PatternRow, nearest_first


@pytest.fixture
def path(tmp_path):
    return tmp_path / "patterns.db"


@pytest.fixture
def store(path):
    opened = Store(path)
    yield opened
    opened.close()


# The index against `likeness`, pair by pair.


def some(source, pool, most):
    return tuple(source.sample(pool, source.randint(0, most)))


def a_look(source):
    return Fingerprint(
        file_extensions=some(source, [".py", ".sql", ".md", ".ts", ".rs"], 3),
        file_path_buckets=some(source, ["src", "tests", "docs", "."], 2),
        tool_names=some(source, ["read", "write", "bash", "search", "fetch", "edit", "run"], 7),
        side_effect_classes=some(source, ["none", "read", "write"], 2),
        has_images=source.random() < 0.2,
        estimated_input_tokens_bucket=source.randint(0, 3),
        intent_tags=some(source, ["commit", "doc", "test", "debug"], 3),
        workspace_hash=str(source.random()),
        workload_id=source.choice([None, None, "nightly", "release"]),
    )


def a_vector(source):
    kind = source.random()
    if kind < 0.2:
        return b""
    if kind < 0.3:
        return bytes(source.choice([PEAK, 256 - PEAK]) for _ in range(DIMENSIONS))
    if kind < 0.35:
        return bytes(DIMENSIONS)
    words = ["parser", "error", "cache", "token", "ledger", "graph", "query", "login"]
    return hashed_vector(" ".join(source.choices(words, k=source.randint(1, 9))))


@pytest.fixture(scope="module")
def crowd():
    source = random.Random(7)
    looks = [(a_look(source), a_vector(source)) for _ in range(700)]
    return {fingerprint_id(*each): each for each in looks}


@pytest.mark.parametrize("removed", [0, 3])
def test_index_gives_the_likeness_of_every_pair(crowd, removed):
    index = PatternIndex()
    kept = dict(crowd)
    index.add(Look.of(*each) for each in crowd.values())
    for name in [*crowd][::removed] if removed else []:
        index.remove(name)
        del kept[name]
    assert len(index) == len(kept)
    source = random.Random(8)
    for _ in range(12):
        asked = a_look(source), a_vector(source)
        expected = {
            name: likeness(asked[0], each[0], asked[1], each[1]) for name, each in kept.items()
        }
        found = index.similarities(*asked).tolist()
        assert dict(zip(index.names(), found, strict=True)) == expected
        ranked = sorted((-alike, name) for name, alike in expected.items())
        for k in (1, 10, 10_000):
            assert index.nearest(*asked, k) == [(name, -alike) for alike, name in ranked[:k]]


def test_ties_are_broken_by_id_however_many_there_are():
    index = PatternIndex()
    names = [fingerprint_id(look(number), b"") for number in range(1_000)]
    index.add(Look.of(look(number), b"") for number in range(1_000))
    assert [name for name, _ in index.nearest(PLAIN, b"", 10)] == sorted(names)[:10]


def test_index_knows_its_edges():
    index = PatternIndex()
    assert index.nearest(PLAIN, b"", 10) == []
    index.add([])
    index.add([Look.of(PLAIN, b""), Look.of(PLAIN, b"")])
    index.add([Look.of(PLAIN, b"")])
    assert len(index) == 1
    assert index.nearest(PLAIN, b"", 0) == []
    index.remove("sha256:unknown")
    assert not index.is_worn
    for number in range(1_030):
        index.add([Look.of(look(number), b"")])
        index.remove(fingerprint_id(look(number), b""))
    assert index.is_worn


def test_cosines_that_nearly_round_either_way_are_computed_exactly(monkeypatch):
    monkeypatch.setattr("pointsman.storage.stores.patterns.index._UNSURE", 1.0)
    source = random.Random(9)
    index = PatternIndex()
    looks = [(look(number), a_vector(source)) for number in range(200)]
    index.add(Look.of(*each) for each in looks)
    asked = hashed_vector("the error in the parser")
    expected = {fingerprint_id(*each): likeness(PLAIN, each[0], asked, each[1]) for each in looks}
    found = index.similarities(PLAIN, asked).tolist()
    assert dict(zip(index.names(), found, strict=True)) == expected


def test_largest_scalar_product_is_exact_in_float32():
    assert DIMENSIONS * PEAK * PEAK < 2**24
    full = np.full((DIMENSIONS, 3), PEAK, np.float32)
    assert (np.full(DIMENSIONS, PEAK, np.float32) @ full == DIMENSIONS * PEAK * PEAK).all()


def test_nearest_rows_of_a_store_are_those_of_a_plain_search(path, crowd):
    store = Store(path)
    source = random.Random(10)
    rows = [
        ImportRow(
            f"{name} {model}", *each, model, Billionths(source.randint(0, ONE)), MicroUsd(5), 2
        )
        for name, each in [*crowd.items()][:150]
        for model in some(source, ["p:a", "p:b", "p:c"], 2) or ("p:a",)
    ]
    store.import_rows(rows, AT)
    for _ in range(5):
        asked = a_look(source), a_vector(source)
        plain = [
            PatternRow(
                fingerprint_id(row.fingerprint, row.vector),
                row.model,
                row.success,
                row.cost_microusd,
                row.sample_size,
                likeness(asked[0], row.fingerprint, asked[1], row.vector),
            )
            for row in rows
        ]
        assert store.nearest(*asked, 10) == nearest_first(plain)[:10]
    store.close()
