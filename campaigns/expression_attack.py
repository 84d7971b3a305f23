"""Hostile expressions, with every look at the system while one is evaluated counted.

Each payload is tried as a condition and as a value, alone and inside larger expressions. Writes
`evidence/expression_attack.json`; fails when one is not held.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from campaigns.evidence import write
from tests.unit.branches.hostile_expressions import PAYLOADS, READERS, attempt, is_plain

FRAMES = ("{}", "not ({})", "({}) == 1", "name == 'x' or {}", "[{}, 1]", "lower({})")
LOOKS = ("open", "os.", "socket.", "subprocess.", "import", "ctypes.", "shutil.")
MOST_S = 1.0
"""No payload may take longer to be read, compiled and evaluated twice."""

_seen: list[str] = []
_watching = False


def _watch(event: str, _arguments: object) -> None:
    if _watching and event.startswith(LOOKS):
        _seen.append(event)


def main() -> None:
    global _watching  # noqa: PLW0603 - an audit hook can be told nothing else
    for text in PAYLOADS:  # modules that are loaded when first needed are loaded now
        attempt(text, READERS[0])
    sys.addaudithook(_watch)
    ended: Counter[str] = Counter()
    broken: list[dict[str, str]] = []
    slowest = 0.0
    for frame in FRAMES:
        for text in PAYLOADS:
            for read in READERS:
                began = time.perf_counter()
                _watching = True
                try:
                    held = attempt(frame.format(text), read)
                    how = held.how if is_plain(held.value) else "part of the program"
                except Exception as error:  # noqa: BLE001 - any is a fault to be told
                    how = f"raised {type(error).__name__}"
                _watching = False
                taken = time.perf_counter() - began
                slowest = max(slowest, taken)
                how = "slow" if taken > MOST_S else how
                ended[how] += 1
                if how not in {"refused", "unknown", "value"} or _seen:
                    broken.append({"text": text[:80], "frame": frame, "how": how})
                    _seen.clear()
    tried = sum(ended.values())
    found: dict[str, object] = {
        "what": "hostile expressions: refused, unknown or a plain value, and no look at the system",
        "payloads": len(PAYLOADS),
        "frames": len(FRAMES),
        "tried": tried,
        "held": tried - len(broken),
        "ended": dict(sorted(ended.items())),
        "slowest_ms": round(slowest * 1000, 1),
        "broken": broken,
    }
    print(found, write("expression_attack", found))
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
