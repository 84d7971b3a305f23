"""The codes of all that can be wrong with a JSON or YAML document. Not the codes of decisions."""

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


class Code(Meaning):
    """One kind of problem in a document; `meaning` is the sentence the documentation shows."""

    # The text cannot be read.
    ENCODING = "config.encoding", "the text is not UTF-8, or starts with a byte order mark"
    CHARACTER = "config.character", "a character that no document may hold"
    SYNTAX = "config.syntax", "the text is not valid JSON or YAML"
    TOO_LARGE = "config.too_large", "the text has more bytes than allowed"
    TOO_DEEP = "config.too_deep", "lists and mappings are nested deeper than allowed"
    TOO_MANY_VALUES = "config.too_many_values", "the document holds more values than allowed"
    TOO_MANY_PROBLEMS = "config.too_many_problems", "reading stopped after the problems listed"

    # The text can be read, but says something that has no single meaning here.
    DUPLICATE_KEY = "config.duplicate_key", "a key appears twice in one mapping"
    KEY_NOT_TEXT = "config.key_not_text", "a key is a number, a truth value, empty or not a scalar"
    ANCHOR = "config.anchor", "an anchor `&name`; documents say everything where it stands"
    ALIAS = "config.alias", "an alias `*name`; documents say everything where it stands"
    MERGE_KEY = "config.merge_key", "a merge key `<<`; documents say everything where it stands"
    TAG = "config.tag", "a tag `!name`; values have the type they are written as"
    DIRECTIVE = "config.directive", "a `%` directive"
    MANY_DOCUMENTS = "config.many_documents", "a second document in the same text"
    LEADING_ZERO = (
        "config.leading_zero",
        "a number with a leading zero, which readers disagree about",
    )
    NOT_FINITE = "config.not_finite", "an infinite number, or one that is not a number"
    INTEGER_TOO_LARGE = "config.integer_too_large", "a whole number beyond 9007199254740991"
    NUMBER_TOO_LONG = (
        "config.number_too_long",
        "a number with too many digits or too large an exponent",
    )

    EMPTY_VALUE = "config.empty_value", "a key or a list item with nothing behind it"

    # The document can be read, but is not of the wanted form.
    UNKNOWN_KEY = "config.unknown_key", "a key that means nothing in this place"
    MISSING_KEY = "config.missing_key", "a key that must be given is absent"
    WRONG_TYPE = "config.wrong_type", "a value of another type than wanted"
    UNKNOWN_VALUE = "config.unknown_value", "a value that is not one of those allowed"
    OUT_OF_RANGE = "config.out_of_range", "a number below or above its limits"
    TOO_SHORT = "config.too_short", "a text, list or mapping shorter than allowed"
    TOO_LONG = "config.too_long", "a text, list or mapping longer than allowed"
    PATTERN = "config.pattern", "a text that is not written the way it must be"
    INVALID_VALUE = "config.invalid_value", "a value that breaks another rule, named in the message"

    # The file that holds the document.
    UNREADABLE = "config.unreadable", "the file is there but cannot be read"
    CHANGING = "config.changing", "the file changed each time it was read"
    LAST_GOOD_BROKEN = (
        "config.last_good_broken",
        "the stored last good file is damaged or out of date",
    )
    LAST_GOOD_NOT_KEPT = (
        "config.last_good_not_kept",
        "the file is good but could not be stored as such",
    )
    PUBLICATION_REFUSED = (
        "config.publication_refused",
        "a published policy is not what a key of this ledger signed, or cannot be read",
    )
