"""Making the vectors of recorded turns anew, from their texts, once another maker is in force."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from pointsman.learning.recalling import recalled
from pointsman.storage.home import Home
from pointsman.storage.stores.patterns.look import halves
from pointsman.storage.stores.patterns.patterns import PatternStore


class Revectored(Struct, frozen=True):
    """How many looks got tokens of the maker in force, and how many are left without."""

    made: int
    left: int


def revectored(home: Home, store: PatternStore, vector_of: Callable[[str], bytes]) -> Revectored:
    """Make tokens for every look that has none of the maker in force, where a text is left."""
    done: set[str] = set()
    for name, turn_id in store.without_tokens():
        if name not in done and _made(home, store, (name, turn_id), vector_of):
            done.add(name)
    return Revectored(len(done), store.count_without_tokens())


def _made(
    home: Home, store: PatternStore, turn: tuple[str, str], vector_of: Callable[[str], bytes]
) -> bool:
    found = recalled(home, turn[1])
    if found is None or not isinstance(found.facts.message, str):
        return False
    return store.put_tokens(turn[0], *halves(vector_of(found.facts.message)))
