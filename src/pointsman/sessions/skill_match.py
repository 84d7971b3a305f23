"""Which skills a message calls for: word overlap in whole numbers. Companion §5.6.

Score of a skill: its description's distinct words that the message has, over their number, at most
`MOST_WEIGHED` of them; it matches from 0.3. A trigger phrase that stands in the message, word by
word, scores 1. Words are case-folded, without stop words and a plural `s`; an ideograph is a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pointsman.kernel.number import ONE, ZERO, Billionths, clamp, ratio

THRESHOLD: Final = Billionths(300_000_000)

MOST_WEIGHED: Final = 10
"""Otherwise a skill that is described at length could never match a short message."""

MOST_WORDS: Final = 2_000
"""Words of a message that are looked at."""

_STOP_WORDS: Final = (
    "a about all also an and any are as at be been but by can could do does for from had has have "
    "how i if in into is it its just me more my no not of on or our out please should so some such "
    "than that the their them then there these they this those to up use used uses using want was "
    "we were what when where which who will with would you your"
)

# DETERMINISM: fixed ranges, because what `\w` means changes with the Unicode tables of Python.
_WORD = re.compile(
    r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[0-9A-Za-z\u00c0-\u1fff\u2c00-\u2dff\u3040-\u30ff\ua000-\uf8ff]+"
)


class SkillWords(NamedTuple):
    """What a skill is matched by, made ready once."""

    name: str
    words: frozenset[str]
    triggers: tuple[tuple[str, ...], ...]


class SkillMatch(NamedTuple):
    """A skill that matches, and how well."""

    name: str
    score: Billionths


def skill_words(name: str, description: str, triggers: Iterable[str]) -> SkillWords:
    """Make a skill ready to be matched."""
    stops = frozenset(words(_STOP_WORDS))
    weighed = frozenset(word for word in words(description) if word not in stops)
    phrases = (tuple(words(each)) for each in triggers)
    return SkillWords(name, weighed, tuple(phrase for phrase in phrases if phrase))


def words(text: str) -> Iterator[str]:
    """Give the words of a text as they are compared."""
    for match in _WORD.finditer(text):
        word = match[0].casefold()
        is_plural = len(word) > 3 and word.endswith("s") and not word.endswith("ss")
        yield word[:-1] if is_plural else word


def matches(skills: Iterable[SkillWords], message: str) -> tuple[SkillMatch, ...]:
    """Give the skills that reach the threshold, the best first, equals by name."""
    said = [word for word, _ in zip(words(message), range(MOST_WORDS), strict=False)]
    distinct = frozenset(said)
    spoken = f" {' '.join(said)} "
    scored = (SkillMatch(each.name, _score(each, distinct, spoken)) for each in skills)
    found = [each for each in scored if each.score >= THRESHOLD]
    return tuple(sorted(found, key=lambda each: (-each.score, each.name)))


def _score(skill: SkillWords, distinct: frozenset[str], spoken: str) -> Billionths:
    if any(f" {' '.join(phrase)} " in spoken for phrase in skill.triggers):
        return ONE
    if not skill.words:
        return ZERO
    weighed = min(len(skill.words), MOST_WEIGHED)
    return clamp(ratio(len(skill.words & distinct), weighed))
