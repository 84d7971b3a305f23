"""Run by a client's own interpreter: each case prints whether it went well. Knows no product."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

URL, MODEL = sys.argv[1], sys.argv[2]
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SAID = "hello from the script"
SEEN = "a picture was seen"
SUM = "the sum is 5"


def run(*cases: Callable[[], object]) -> None:
    for case in cases:
        try:
            case()
        except Exception as error:  # noqa: BLE001 - a case may fail in any way, and is told
            traceback.print_exc()
            print(f"fail {case.__name__} {type(error).__name__}: {error}".replace("\n", " ")[:300])
        else:
            print(f"ok {case.__name__}")


def same(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")
