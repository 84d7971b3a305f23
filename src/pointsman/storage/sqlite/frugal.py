"""How much memory the databases of a process may hold in pages."""

from __future__ import annotations

from typing import Final

import apsw

FRUGAL_KIB: Final = 8 * 1024


def be_frugal(kib: int = FRUGAL_KIB) -> None:
    """Keep the pages of all databases of this process below a bound, from here on.

    A gateway is fast because its indexes stay in memory; a user who talks for a day wants that
    memory for something else, and waits for models anyway.
    """
    apsw.soft_heap_limit(kib * 1024)
