"""Patterns that users write, by RE2: linear time, whatever the text is."""

from __future__ import annotations

from typing import Final

import re2

MAX_PATTERN: Final = 1_000
"""Characters in one pattern."""


def options(*, is_case_sensitive: bool = True) -> re2.Options:
    """Return the RE2 options for patterns; `refusal` reports a bad pattern, RE2 logs nothing."""
    found = re2.Options()
    found.log_errors = False
    found.case_sensitive = is_case_sensitive
    return found


def refusal(pattern: str, *, is_case_sensitive: bool = True) -> str:
    """Say why a pattern cannot be used; empty when it can."""
    if len(pattern) > MAX_PATTERN:
        return f"it is longer than {MAX_PATTERN} characters"
    try:
        re2.compile(pattern, options(is_case_sensitive=is_case_sensitive))
    except re2.error as error:
        reason = error.args[0] if error.args else "it cannot be read"
        return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    except UnicodeEncodeError:
        return "it holds half of a surrogate pair"
    return ""
