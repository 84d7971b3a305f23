"""Check the published placement table: page, JSON, schema, starter file and code say the same.

Extracts the YAML block of docs/reference/placement.md, converts it to canonical JSON, and validates
it. Any drift ends the run with 1 and one line that names it. With --write, placement.json is
written anew from the page; it is never written from a table that fails.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import jsonschema_rs
import msgspec

from pointsman.errors import DocumentError
from pointsman.kernel.canonical import canonical_json
from pointsman.kernel.yaml_text import read_yaml
from pointsman.placement.policy import BUILT_IN, auto_of, read_policy
from pointsman.placement.rules.table import PlacementFile
from pointsman.signals.kinds import KINDS

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/reference/placement.md"
JSON = "docs/reference/placement.json"
SCHEMA = "docs/reference/schemas/placement.schema.json"
STARTER = "src/pointsman/operations/starter_home/placement.yaml"

_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Drift(Exception):
    """Two things that must say the same do not, or one of them cannot be read."""


def table_text(page: str) -> bytes:
    """Return the one YAML block of the page."""
    blocks = _BLOCK.findall(page)
    if len(blocks) != 1:
        raise Drift(f"{PAGE}: one YAML block is expected, {len(blocks)} found")
    return str(blocks[0]).encode()


def as_json(text: bytes, source: str) -> bytes:
    """Convert a table to canonical JSON: the same YAML always gives the same bytes."""
    first, second = (canonical_json(read_yaml(text, source).value) for _ in range(2))
    if first != second:
        raise Drift(f"{source}: two conversions gave different bytes")
    return first + b"\n"


def as_table(text: bytes, source: str) -> PlacementFile:
    """Read a table as the program does: typed, total, free of overlaps."""
    return read_policy(text, source, (kind.name for kind in KINDS))


def check(root: Path, *, write: bool) -> None:
    """Raise at the first drift; nothing is written before the table itself is sound."""
    text = table_text(_text(root, PAGE))
    converted = as_json(text, PAGE)
    _check_schema(root, converted)
    table = as_table(text, PAGE)
    if table != BUILT_IN:
        raise Drift(f"{PAGE}: {_difference(table)} differs from the table built into the program")
    starter = as_table(_text(root, STARTER).encode(), STARTER)
    # A starter home says one thing beyond the table, the kinds of text that must stay, and leaves
    # one out: `auto` follows from the local model that its owner names.
    same = msgspec.structs.replace(starter, sensitive=table.sensitive, auto=table.auto)
    if auto_of(starter) != table.auto or same != table:
        raise Drift(f"{STARTER}: {_difference(starter)} differs from {PAGE}")
    if write:
        (root / JSON).write_bytes(converted)
    if _text(root, JSON).encode() != converted:
        raise Drift(f"{JSON}: differs from {PAGE}; run `make docs`")


def _check_schema(root: Path, converted: bytes) -> None:
    schema = json.loads(_text(root, SCHEMA))
    _check_closed(schema, "")
    validator = jsonschema_rs.Draft202012Validator(schema)
    for error in validator.iter_errors(json.loads(converted)):
        where = "/".join(map(str, error.instance_path)) or "the table"
        raise Drift(f"{PAGE}: {where}: breaks {SCHEMA}: {error.message}")


def _check_closed(node: object, path: str) -> None:
    """Raise where the schema would let an unknown field pass."""
    if isinstance(node, dict):
        if "properties" in node and node.get("additionalProperties") is not False:
            raise Drift(f"{SCHEMA}: {path or '/'} allows unknown fields")
        for name, inner in node.items():
            _check_closed(inner, f"{path}/{name}")
    if isinstance(node, list):
        for index, inner in enumerate(node):
            _check_closed(inner, f"{path}/{index}")


def _difference(table: PlacementFile) -> str:
    """Name the first part of a table that is not the built-in one's."""
    wanted, found = msgspec.to_builtins(BUILT_IN), msgspec.to_builtins(table)
    return next(f"`{name}`" for name in wanted if found.get(name) != wanted[name])


def _text(root: Path, name: str) -> str:
    try:
        return (root / name).read_text(encoding="utf-8")
    except OSError as error:
        raise Drift(f"{name}: cannot be read: {error.strerror}") from error


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {JSON} from the page")
    options = parser.parse_args(arguments)
    try:
        check(root, write=options.write)
    except Drift as drift:
        print(f"error: {drift}", file=sys.stderr)
        return 1
    except DocumentError as error:
        print(f"error: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
