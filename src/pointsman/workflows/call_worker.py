"""Calls one Python function for a workflow, in a process that can be ended at any time.

The context comes as JSON on standard input, the function's result goes out as JSON. Text that it
prints goes to standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from decimal import Decimal

import msgspec

from pointsman.providers.lifetime import follow


def main(name: str, parent: int) -> None:
    """Call the function that a `module:function` names; end when the parent process is gone."""
    follow(parent)
    answers = os.dup(1)
    os.dup2(2, 1)
    module, _, function = name.partition(":")
    context = json.load(sys.stdin, parse_float=Decimal)
    found = getattr(importlib.import_module(module), function)(context)
    encoded = msgspec.json.Encoder(decimal_format="number").encode(found)
    with os.fdopen(answers, "wb") as out:
        out.write(encoded)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
