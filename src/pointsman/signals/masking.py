"""Placeholders for values of a text: put in before it leaves, taken out of the answer.

A placeholder is one word of capitals and digits, so that it needs no escape in any format, and is
drawn from its value under the home's key: the same value has the same one for a whole session.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pointsman.signals.detectors import detect
from pointsman.signals.hit import Hit

SHORTEST_EVERYWHERE: Final = 6
"""From so many characters on a value is masked wherever it stands; a shorter one only where it was
found, since its letters may stand in other words."""

_DIGEST_CHARS: Final = 10
_DOMAIN: Final = b"pointsman/mask/1\0"
_WORD: Final = re.compile(r"[^\W_]")

Find = Callable[[str], Sequence[Hit]]
Choose = Callable[[str], bool]
"""Tells of a kind, `pii.email`, whether it is masked."""


class Placeholders:
    """The placeholders of one request: values found, the words that stand for them, and back."""

    def __init__(self, key: bytes, session_id: str, choose: Choose, find: Find = detect) -> None:
        self._key = hmac.digest(key, _DOMAIN + session_id.encode("utf-8", "replace"), "sha256")
        self._choose = choose
        self._find = find
        self._words: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._literals: re.Pattern[str] | None = None
        self._back: re.Pattern[str] | None = None
        self._starts: frozenset[str] = frozenset()
        self.has_clash = False
        """Whether two values came to one placeholder: then neither may stand for them."""

    def __bool__(self) -> bool:
        return bool(self._words)

    def collect(self, text: str) -> None:
        """Find the values of a text that are to be masked."""
        for hit in self._find(text):
            if self._choose(f"{hit.group}.{hit.kind}"):
                self._word_of(text[hit.start : hit.end], hit)

    def mask(self, text: str, counts: Counter[str] | None = None) -> str:
        """Return a text with placeholders for the values in it; `counts` counts them by kind."""
        spans = self._spans(text)
        if not spans:
            return text
        parts, at = [], 0
        for start, end, kind in spans:
            value = text[start:end]
            parts += [text[at:start], self._named_word(value, kind)]
            if counts is not None:
                counts[self._kinds[value]] += 1
            at = end
        return "".join((*parts, text[at:]))

    def restore(self, text: str, quote: Callable[[str], str] = str) -> str:
        """Return a text with the values for their placeholders, each as `quote` writes it."""
        pattern = self._back_pattern()
        if pattern is None:
            return text
        return pattern.sub(lambda found: quote(self._values[found[0]]), text)

    def split_open(self, text: str) -> tuple[str, str]:
        """Split a text before the possible beginning of a placeholder at its end."""
        pattern = self._back_pattern()
        if pattern is None:
            return text, ""
        done = 0
        for found in pattern.finditer(text):
            done = found.end()
        longest = max(map(len, self._values))
        for at in range(max(done, len(text) - longest + 1), len(text)):
            if text[at:] in self._starts:
                return text[:at], text[at:]
        return text, ""

    def has_value(self, text: str) -> bool:
        """Tell whether a value that is masked everywhere still stands in a text."""
        pattern = self._literal_pattern()
        return pattern is not None and pattern.search(text) is not None

    def chosen_kinds(self, kinds: Iterable[str]) -> list[str]:
        """Return the kinds that are to be masked."""
        return [kind for kind in kinds if self._choose(kind)]

    def kinds_left(self, text: str) -> list[str]:
        """Return the kinds that are to be masked and are still found in a text."""
        found = {
            f"{hit.group}.{hit.kind}"
            for hit in self._find(text)
            if self._choose(f"{hit.group}.{hit.kind}")
            and not self._is_placeholder(text[hit.start : hit.end])
        }
        return sorted(found)

    def _is_placeholder(self, text: str) -> bool:
        """Tell whether a text holds nothing but placeholders, and signs between them."""
        pattern = self._back_pattern()
        return pattern is not None and _WORD.search(pattern.sub("", text)) is None

    def table(self) -> str:
        """Return the values by their placeholders, as JSON."""
        return json.dumps(self._values, ensure_ascii=False, sort_keys=True)

    def _spans(self, text: str) -> list[tuple[int, int, str]]:
        """Return the places of values, apart and in order; those that overlap are one."""
        found = [
            (hit.start, hit.end, f"{hit.group}.{hit.kind}")
            for hit in self._find(text)
            if self._choose(f"{hit.group}.{hit.kind}")
        ]
        literals = self._literal_pattern()
        if literals is not None:
            found += [
                (each.start(), each.end(), self._kinds[each[0]]) for each in literals.finditer(text)
            ]
        spans: list[tuple[int, int, str]] = []
        for start, end, kind in sorted(found):
            if spans and start < spans[-1][1]:
                first, last, known = spans[-1]
                spans[-1] = (first, max(last, end), known)
            else:
                spans.append((start, end, kind))
        return spans

    def _word_of(self, value: str, hit: Hit) -> str:
        return self._named_word(value, f"{hit.group}.{hit.kind}")

    def _named_word(self, value: str, kind: str) -> str:
        word = self._words.get(value)
        if word is None:
            digest = hmac.digest(self._key, value.encode("utf-8", "surrogatepass"), hashlib.sha256)
            drawn = base64.b32encode(digest).decode()[:_DIGEST_CHARS]
            word = f"{kind.rpartition('.')[2].upper()}_{drawn}"
            self.has_clash = self.has_clash or word in self._values
            self._words[value], self._values[word] = word, value
            self._kinds[value] = kind
            self._literals = self._back = None
        return word

    def _literal_pattern(self) -> re.Pattern[str] | None:
        if self._literals is None:
            self._literals = _either(
                rf"(?<!\w){re.escape(each)}(?!\w)"
                for each in _longest_first(self._words)
                if len(each) >= SHORTEST_EVERYWHERE
            )
        return self._literals

    def _back_pattern(self) -> re.Pattern[str] | None:
        if self._back is None:
            self._back = _either(map(re.escape, _longest_first(self._values)))
            self._starts = frozenset(
                word[:end] for word in self._values for end in range(1, len(word))
            )
        return self._back


def quote_in_json(text: str) -> str:
    """Return a text as it stands inside a string of JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _longest_first(texts: Iterable[str]) -> list[str]:
    # DETERMINISM: of equal length, by the alphabet.
    return sorted(texts, key=lambda each: (-len(each), each))


def _either(patterns: Iterable[str]) -> re.Pattern[str] | None:
    joined = "|".join(patterns)
    return re.compile(joined) if joined else None
