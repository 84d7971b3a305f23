"""Codes that carry the sentence the documentation shows."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Meaning(StrEnum):
    """A code with its text and its meaning; subclasses list the members."""

    meaning: str

    def __new__(cls, code: str, meaning: str) -> Self:
        """Make a member that is its code and carries its meaning."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member
