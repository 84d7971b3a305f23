"""`pointsman.yaml`: how a home is run. Says nothing about what is decided."""

from __future__ import annotations

from msgspec import Struct

from pointsman.kernel.content import Retain
from pointsman.kernel.schema import conform
from pointsman.kernel.yaml_text import read_yaml


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a home; without a file, these defaults."""

    retain: Retain = "full"


def read_settings(text: bytes, source: str) -> Settings:
    """Read `pointsman.yaml`, or raise with every problem at its place."""
    document = read_yaml(text, source)
    return Settings() if document.value is None else conform(document, Settings)
