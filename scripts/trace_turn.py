"""Trace one plain chat turn through the gateway, and print what of src/pointsman ran.

The turn is a POST to /v1/chat/completions with `model: auto`, served by a scripted provider on
127.0.0.1. The gateway is warm: the turn before it has filled its caches, and no policy file was
edited in the last seconds. Everything counts from the request's first byte until the call's outcome
is durable, on all threads of the gateway. Eleven such turns are traced one after the other, and the
figures are of what most of them ran: a turn may meet the ledger's thread at work or at rest, or the
log being written.

  functions      distinct functions, methods and lambdas that ran; comprehensions are none
  files          the files they stand in
  crossings      distinct pairs of functions, caller and callee, in two packages of the top level.
                 The caller is the nearest frame of ours: a callback is called by its own package
  calls upwards  the crossings whose callee stands in a layer above the caller's, by the order of
                 the layers in pyproject.toml: callbacks, protocols and handlers

With --write the figures and the files go to docs/reference/turn-trace.md.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

from tests.gateway.house import model, provider, running, upstream, write_home

from pointsman.storage.policies.policy_file import SETTLED_NS

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "pointsman"
PAGE = Path("docs/reference/turn-trace.md")
TURNS = 11
"""How many turns are traced; an odd number has no ties."""
GENERATED = "<!-- Written by scripts/trace_turn.py: do not edit, run `make trace-turn`. -->"

Function = tuple[str, str]
"""A file below src/pointsman, and the qualified name of a function in it."""
Pair = tuple[Function, Function]


@dataclass
class Trace:
    """What ran: functions in the order of their first call, and who called whom."""

    functions: dict[Function, None] = field(default_factory=dict)
    pairs: dict[Pair, None] = field(default_factory=dict)

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Take a call, as `threading.setprofile` tells it."""
        if event != "call":
            return
        callee = _function(frame.f_code)
        # The gateway reads the request; before that, threads finish the turn before.
        if callee is None or (not self.functions and package(callee) != "gateway"):
            return
        self.functions[callee] = None
        caller = _caller(frame)
        if caller is not None:
            self.pairs[caller, callee] = None

    def end_turn(self) -> Trace:
        """Return what ran since the turn before, and begin anew."""
        ended = Trace(self.functions, self.pairs)
        self.functions, self.pairs = {}, {}
        return ended


def _function(code: CodeType) -> Function | None:
    """Name a function of ours; none for other code, modules and comprehensions."""
    path = Path(code.co_filename)
    is_lambda = code.co_name == "<lambda>"
    if (code.co_name.startswith("<") and not is_lambda) or not path.is_relative_to(SOURCE):
        return None
    name = f"{code.co_qualname}:{code.co_firstlineno}" if is_lambda else code.co_qualname
    return path.relative_to(SOURCE).as_posix(), name


def _caller(frame: FrameType) -> Function | None:
    above = frame.f_back
    while above is not None:
        found = _function(above.f_code)
        if found is not None:
            return found
        above = above.f_back
    return None


def trace_turn() -> Trace:
    """Serve turns one after the other; return what most of them ran, without the first."""
    trace, traces = Trace(), list[Trace]()
    with TemporaryDirectory() as folder, upstream() as provided:
        home = write_home(
            Path(folder) / "home",
            models={
                "schema_version": 1,
                "providers": {"main": provider("openai", provided.url)},
                "models": {"main:first": model(aliases=["first"])},
            },
            routing={"schema_version": 1, "global_default": "main:first"},
        )
        # The provider's thread runs already and is not traced; every thread of the gateway is.
        threading.setprofile(trace.profile)
        try:
            with running(home) as live:
                for number in range(1, TURNS + 2):
                    live.chat("hello" + " again" * number).raise_for_status()
                    if number == 1:
                        # A file that was just written is read again: a home at work has none.
                        time.sleep(SETTLED_NS / 1e9)
                    live.outcomes(number)
                    traces.append(trace.end_turn())
        finally:
            threading.setprofile(None)  # type: ignore[arg-type] # typeshed knows no way to end it
    return usual(traces[1:])


def usual(traces: Sequence[Trace]) -> Trace:
    """Keep what ran in more than half of the turns."""
    functions = Counter(each for trace in traces for each in trace.functions)
    pairs = Counter(each for trace in traces for each in trace.pairs)
    return Trace(
        {each: None for each, count in functions.items() if 2 * count > len(traces)},
        {each: None for each, count in pairs.items() if 2 * count > len(traces)},
    )


def read_layers(text: str) -> dict[str, int]:
    """Read the rank of each package from the layers of pyproject.toml; the highest has the most."""
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["type"] == "layers")
    return {
        name.strip().removeprefix("pointsman."): rank
        for rank, names in enumerate(reversed(layers))
        for name in names.split("|")
    }


def package(function: Function) -> str:
    return function[0].partition("/")[0].removesuffix(".py")


def crossings(pairs: Iterable[Pair]) -> list[Pair]:
    return [(a, b) for a, b in pairs if package(a) != package(b)]


def calls_upwards(pairs: Iterable[Pair], layers: Mapping[str, int]) -> list[Pair]:
    """List the crossings into a higher layer; packages outside the layers have no height."""
    return [
        (a, b)
        for a, b in crossings(pairs)
        if package(a) in layers and package(b) in layers and layers[package(a)] < layers[package(b)]
    ]


def figures(trace: Trace, layers: Mapping[str, int]) -> dict[str, int]:
    return {
        "functions": len(trace.functions),
        "files": len({file for file, _ in trace.functions}),
        "crossings between packages": len(crossings(trace.pairs)),
        "calls upwards": len(calls_upwards(trace.pairs, layers)),
    }


def page(trace: Trace, layers: Mapping[str, int]) -> str:
    """Write the figures, the calls upwards, and the files in the order of their first call."""
    rows = [f"| {name} | {value} |" for name, value in figures(trace, layers).items()]
    upwards = [
        f"- `{a[0]}` `{a[1]}` calls `{b[0]}` `{b[1]}`"
        for a, b in sorted(calls_upwards(trace.pairs, layers))
    ]
    files = [*dict.fromkeys(file for file, _ in trace.functions)]
    return "\n".join(
        [
            "# One turn, traced",
            "",
            GENERATED,
            "",
            "The code that a plain chat turn runs in a warm gateway: `POST /v1/chat/completions`,",
            "`model: auto`, one provider, from the first byte of the request until its outcome is",
            "durable. `scripts/trace_turn.py` says how each figure is counted. Timing may change",
            "them by a few.",
            "",
            "| | |",
            "|---|---|",
            *rows,
            "",
            "## Calls upwards",
            "",
            "Calls into a layer above the caller's, through a callback or a protocol.",
            "",
            *upwards,
            "",
            "## Files in the order of their first call",
            "",
            *(f"{number}. `{file}`" for number, file in enumerate(files, 1)),
            "",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help=f"write {PAGE}")
    options = parser.parse_args(arguments)
    layers = read_layers((ROOT / "pyproject.toml").read_text("utf-8"))
    trace = trace_turn()
    for name, value in figures(trace, layers).items():
        print(f"{name} {value}")
    if options.write:
        (ROOT / PAGE).write_text(page(trace, layers), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
