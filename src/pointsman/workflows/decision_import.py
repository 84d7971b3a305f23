"""Decision tables from DMN and CSV as YAML that stands in `decisions/` like any other file."""

from __future__ import annotations

from decimal import Decimal
from pathlib import PurePath

import yaml
from msgspec import Struct

from pointsman.branches.dmn.csv_table import csv_decision
from pointsman.branches.dmn.document import dmn_decisions
from pointsman.branches.dmn.table_import import NO_MATCH
from pointsman.branches.file.decisions_file import HitPolicy
from pointsman.branches.policy import read_document, read_policy
from pointsman.errors import InputError, Problem
from pointsman.expressions.values import number_text
from pointsman.kernel.document import Document

_WIDTH = 98


class ImportedTables(Struct, frozen=True):
    """The tables as YAML, and the reasons why others of the file were not read."""

    text: str
    unread: tuple[Problem, ...]


def import_table(
    text: bytes,
    source: str,
    name: str | None = None,
    *,
    hit_policy: HitPolicy = "first",
    default: str = NO_MATCH,
) -> ImportedTables:
    """Convert tables to YAML; one with a feature that has no equivalent is listed, not read.

    Where none can be read, all reasons are raised.
    """
    document, unread = _document(text, source, name, hit_policy, default)
    read_document(document)
    written = yaml.dump(
        document.value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH
    )
    # Our own reader must accept the written text.
    read_policy(written.encode(), source)
    return ImportedTables(written, unread)


def _document(
    text: bytes, source: str, name: str | None, hit_policy: HitPolicy, default: str
) -> tuple[Document, tuple[Problem, ...]]:
    kind = PurePath(source).suffix.lower()
    if kind in {".dmn", ".xml"}:
        found = dmn_decisions(text, source, default=default)
        return found.document, found.unread
    if kind == ".csv":
        stem = name or PurePath(source).stem
        return csv_decision(text, source, stem, hit_policy=hit_policy, default=default), ()
    hint = "name the file *.dmn, *.xml or *.csv"
    raise InputError(f"`{kind or source}` is no kind of table", where=source, hint=hint)


class _Dumper(yaml.SafeDumper):
    """Writes YAML for our reader: no anchors, numbers as they are."""

    def ignore_aliases(self, data: object) -> bool:
        """Write every value in its place."""
        del data
        return True


def _number(dumper: yaml.SafeDumper, value: Decimal) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:float", number_text(value))


_Dumper.add_representer(Decimal, _number)
