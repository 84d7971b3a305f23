"""Verify a receipt, or a bundle, anywhere: Python 3.9 or newer and one file.

Apart from the product: it shares no code but that of the offline verifier, and follows the
published documents, so that an audit does not inherit the product's mistakes. The decision of a
full receipt is derived again. `pointsman receipt --verifier` writes both as one file.
Usage: python pointsman_verify.py RECEIPT|BUNDLE [--key KEY] [--message FILE] [--json]
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import re
import struct
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import isqrt
from pathlib import Path
from typing import Any, NamedTuple, Optional

from pointsman.offline_verifier import (
    CHAIN,
    DECODER,
    ENCODER,
    ENTRY,
    UNKNOWN_KEY,
    Audit,
    BundleBroken,
    Unusable,
    audit,
    expected_key,
    key_id,
    need,
    note_parts,
    parse,
    report_lines,
    sha256,
    unhex,
    verifies,
    whole,
)

# Deriving a decision again, by docs/decision-format.md, in whole numbers only.

SCALE = 10**9
MAX_INT = 2**53 - 1
TIERS = ("fast", "balanced", "deep")
MOST_TEXT = 32_768
Chain = list[dict[str, Any]]


class NotDerivable(Exception):
    """A part of the decision needs what the receipt does not hold."""


def divide(numerator: int, denominator: int) -> int:
    """Divide, rounding half to even."""
    quotient, rest = divmod(numerator, denominator)
    return quotient + (2 * rest > denominator or (2 * rest == denominator and quotient % 2))


def decimal_text(value: int, digits: int = 9) -> str:
    """Write a number of billionths, or of millionths, without trailing zeros."""
    whole, part = divmod(abs(value), 10**digits)
    fraction = str(part).zfill(digits).rstrip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def ascii_lower(text: str) -> str:
    """Lower the letters A to Z alone."""
    return "".join(chr(ord(each) + 32) if "A" <= each <= "Z" else each for each in text)


def fold(letter: str) -> str:
    """Return what a letter has in common with its other cases, where that is one letter."""
    upper = letter.upper()
    if len(upper) != 1 or letter == "\u0131":
        upper = letter
    lower = upper.lower()
    return lower if len(lower) == 1 else upper


def fold_text(text: str) -> str:
    """Fold every letter."""
    return text.lower() if text.isascii() else "".join(map(fold, text))


Ranges = list[tuple[int, int]]
LAST = 0x10FFFF
WORD: Ranges = [(48, 57), (65, 90), (95, 95), (97, 122)]
CLASSES: dict[str, Ranges] = {"d": [(48, 57)], "w": WORD, "s": [(9, 10), (12, 13), (32, 32)]}
POSIX: dict[str, Ranges] = {
    "alnum": [(48, 57), (65, 90), (97, 122)], "alpha": [(65, 90), (97, 122)], "ascii": [(0, 127)],
    "blank": [(9, 9), (32, 32)], "cntrl": [(0, 31), (127, 127)], "digit": [(48, 57)],
    "graph": [(33, 126)], "lower": [(97, 122)], "print": [(32, 126)],
    "punct": [(33, 47), (58, 64), (91, 96), (123, 126)], "space": [(9, 13), (32, 32)],
    "upper": [(65, 90)], "word": WORD, "xdigit": [(48, 57), (65, 70), (97, 102)],
}  # fmt: skip
ESCAPES = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
EDGES = {"b": "b", "B": "B", "A": "A", "z": "z"}


@lru_cache(maxsize=1)
def other_cases() -> dict[int, list[int]]:
    """Return every letter that has other cases, with them."""
    groups: dict[str, list[int]] = {}
    for code in (*range(0xD800), *range(0xE000, 0x1F000)):
        letter = chr(code)
        if fold(letter) != letter:
            groups.setdefault(fold(letter), [ord(fold(letter))]).append(code)
    return {code: group for group in groups.values() for code in group}


def with_cases(ranges: Ranges) -> Ranges:
    """Add the other cases of letters."""
    found = [*ranges]
    if all(high < 128 for _, high in ranges):
        known: dict[int, list[int]] = {c: [c, c ^ 32] for c in (*range(65, 91), *range(97, 123))}
        for letter, other in (("k", 0x212A), ("s", 0x17F)):
            for each in (ord(letter), ord(letter) - 32):
                known[each] = [*known[each], other]
    else:
        known = other_cases()
    for code, group in known.items():
        if any(low <= code <= high for low, high in ranges):
            found += [(each, each) for each in group]
    return found


def complement(ranges: Ranges) -> Ranges:
    """Return all other letters."""
    found, following = [], 0
    for low, high in sorted(ranges):
        if low > following:
            found.append((following, low - 1))
        following = max(following, high + 1)
    return [*found, (following, LAST)] if following <= LAST else found


class PatternReader:
    """Reads a pattern of the subset that RE2 and this program take alike, into a tree."""

    def __init__(self, pattern: str) -> None:
        self.text, self.at, self.flags = pattern, 0, frozenset[str]()

    def tree(self) -> Any:
        """Read the whole pattern."""
        found = self._either()
        if self.at < len(self.text):
            raise NotDerivable("the pattern closes a group it did not open")
        return found

    def _peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def _take(self) -> str:
        letter = self._peek()
        if not letter:
            raise NotDerivable("the pattern breaks off")
        self.at += 1
        return letter

    def _either(self) -> Any:
        branches = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            branches.append(self._sequence())
        return ("either", branches)

    def _sequence(self) -> Any:
        parts: list[Any] = []
        while self._peek() not in {"", "|", ")"}:
            part = self._part()
            if part is not None:
                parts.append(self._again(part))
        return ("all", parts)

    def _again(self, part: Any) -> Any:
        while True:
            bounds = re.compile(r"\{(\d{1,4})(,?)(\d{0,4})\}").match(self.text, self.at)
            sign = self._peek()
            if bounds and (bounds[2] or not bounds[3]):
                least = int(bounds[1])
                most = int(bounds[3]) if bounds[3] else None if bounds[2] else least
                self.at = bounds.end()
            elif sign and sign in "*+?":
                least, most = int(sign == "+"), 1 if sign == "?" else None
                self.at += 1
            else:
                return part
            self.at += self._peek() == "?"
            part = ("again", part, least, most)

    def _part(self) -> Any:  # noqa: PLR0911 - one each
        letter = self._take()
        if letter == "(":
            return self._group()
        if letter == "[":
            return ("set", self._set())
        if letter == ".":
            return ("set", [(0, LAST)] if "s" in self.flags else complement([(10, 10)]))
        if letter == "^":
            return ("edge", "^" if "m" in self.flags else "A")
        if letter == "$":
            return ("edge", "$" if "m" in self.flags else "z")
        if letter == "\\":
            return self._escape()
        if letter in "*+?":
            raise NotDerivable("the pattern repeats nothing")
        return self._letter(ord(letter))

    def _letter(self, code: int) -> Any:
        one = [(code, code)]
        return ("set", with_cases(one) if "i" in self.flags else one)

    def _group(self) -> Any:
        before = self.flags
        head = re.compile(r"\?(?:P?<\w+>|([imsU]*)(?:-([imsU]+))?([:)]))").match(self.text, self.at)
        if self._peek() == "?" and head is None:
            raise NotDerivable("the pattern has a group of another kind")
        if head is not None:
            self.at = head.end()
            self.flags = (before | {*(head[1] or "")}) - {*(head[2] or "")}
            if head[3] == ")":
                return None
        found = self._either()
        if self._take() != ")":
            raise NotDerivable("the pattern does not close a group")
        self.flags = before
        return found

    def _escape(self) -> Any:
        letter = self._take()
        if letter in EDGES:
            return ("edge", EDGES[letter])
        if letter == "Q":
            quoted, _, rest = self.text[self.at :].partition("\\E")
            self.at = len(self.text) - len(rest)
            return ("all", [self._letter(ord(each)) for each in quoted])
        ranges = self._class(letter)
        return self._letter(self._code(letter)) if ranges is None else ("set", ranges)

    def _class(self, letter: str) -> Ranges | None:
        known = CLASSES.get(letter.lower())
        if known is None:
            return None
        found = with_cases(known) if "i" in self.flags else known
        return complement(found) if letter.isupper() else found

    def _code(self, letter: str) -> int:
        if letter in ESCAPES:
            return ESCAPES[letter]
        if letter == "x":
            found = re.compile(r"\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2})").match(self.text, self.at)
            if found is None or int(found[1] or found[2], 16) > LAST:
                raise NotDerivable("the pattern names no letter")
            self.at = found.end()
            return int(found[1] or found[2], 16)
        if letter.isascii() and not letter.isalnum():
            return ord(letter)
        raise NotDerivable(f"the pattern uses `\\{letter}`")

    def _set(self) -> Ranges:
        is_negated = self._peek() == "^"
        self.at += is_negated
        found: Ranges = []
        is_first = True
        while self._peek() != "]" or is_first:
            is_first = False
            found += self._member()
        self.at += 1
        return complement(found) if is_negated else found

    def _member(self) -> Ranges:
        named = re.compile(r"\[:(\^?)([a-z]+):\]").match(self.text, self.at)
        if named is not None and named[2] in POSIX:
            self.at = named.end()
            known = POSIX[named[2]]
            known = with_cases(known) if "i" in self.flags else known
            return complement(known) if named[1] else known
        if self._peek() == "\\":
            ranges = self._class(self._peek(2)[1:])
            if ranges is not None:
                self.at += 2
                return ranges
        low = self._set_code()
        high = low
        if self._peek() == "-" and self._peek(2) not in {"-", "-]"}:
            self.at += 1
            high = self._set_code()
        if high < low:
            raise NotDerivable("the pattern has an empty range")
        return with_cases([(low, high)]) if "i" in self.flags else [(low, high)]

    def _set_code(self) -> int:
        letter = self._take()
        return self._code(self._take()) if letter == "\\" else ord(letter)


MOST_STEPS = 20_000
Program = list[tuple[Any, ...]]


def write_program(tree: Any, program: Program) -> None:
    """Write a pattern's tree as steps: letters to take, edges to be at, ways to go."""
    kind = tree[0]
    if len(program) > MOST_STEPS:
        raise NotDerivable("the pattern is too long")
    if kind == "set":
        program.append(("set", sorted(tree[1])))
    elif kind == "edge":
        program.append(tree)
    elif kind == "all":
        for each in tree[1]:
            write_program(each, program)
    elif kind == "either":
        _write_branches(tree[1], program)
    else:
        _write_again(tree, program)


def _write_branches(branches: list[Any], program: Program) -> None:
    ends = []
    for each in branches[:-1]:
        fork = len(program)
        program.append(())
        write_program(each, program)
        ends.append(len(program))
        program.append(())
        program[fork] = ("go", fork + 1, len(program))
    write_program(branches[-1], program)
    for each in ends:
        program[each] = ("go", len(program), len(program))


def _write_again(tree: Any, program: Program) -> None:
    _, part, least, most = tree
    for _ in range(least):
        write_program(part, program)
    forks = []
    for _ in range(1 if most is None else most - least):
        forks.append(len(program))
        program.append(())
        write_program(part, program)
    if most is None:
        program.append(("go", forks[0], forks[0]))
    for each in forks:
        program[each] = ("go", each + 1, len(program))


@lru_cache(maxsize=1024)
def program_of(pattern: str) -> Program | str:
    """Return a pattern as steps, or why it cannot be run here."""
    program: Program = []
    try:
        write_program(PatternReader(pattern).tree(), program)
    except NotDerivable as error:
        return str(error)
    return [*program, ("end",)]


def _is_at(edge: str, before: int, after: int) -> bool:
    if edge == "A":
        return before < 0
    if edge == "z":
        return after < 0
    if edge == "^":
        return before in {-1, 10}
    if edge == "$":
        return after in {-1, 10}
    is_edge = _is_word(before) != _is_word(after)
    return is_edge if edge == "b" else not is_edge


def _is_word(code: int) -> bool:
    return any(low <= code <= high for low, high in WORD)


def runs(program: Program, text: str) -> bool:
    """Tell whether a pattern matches somewhere: all ways are followed at once."""
    codes = [*map(ord, text), -1]
    states: list[int] = []
    before = -1
    for code in codes:
        marks: set[int] = set()
        takes: list[int] = []
        waits = [0, *states]
        while waits:
            at = waits.pop()
            if at in marks:
                continue
            marks.add(at)
            step = program[at]
            if step[0] == "end":
                return True
            if step[0] == "go":
                waits += step[1:]
            elif step[0] == "set":
                takes.append(at)
            elif _is_at(step[1], before, code):
                waits.append(at + 1)
        states = [
            at + 1 for at in takes if any(low <= code <= high for low, high in program[at][1])
        ]
        before = code
    return False


def seen_text(text: str) -> str:
    """Return the part of a message that patterns look at."""
    return text[:MOST_TEXT].encode("utf-8", "replace").decode()


Answer = Optional[bool]  # noqa: UP045 - evaluated, by Python 3.9 too
"""None: it cannot be told, and the record is taken at its word."""


def every(answers: Iterator[Answer]) -> Answer:
    """Return whether all hold."""
    found = [*answers]
    return False if False in found else None if None in found else True


def some(answers: Iterator[Answer]) -> Answer:
    """Return whether any holds."""
    found = [*answers]
    return True if True in found else None if None in found else False


class TurnAgain:
    """One turn's chain of slots, run again on recorded facts under a recorded policy."""

    def __init__(
        self, policy: dict[str, Any], facts: dict[str, Any], text: str | None, told: Chain
    ) -> None:
        self.policy, self.facts, self.models = policy, facts, policy["models"]
        self.text = None if text is None else seen_text(text)
        self.told = {
            name
            for each in told
            if each["policy"] == "rule"
            for name in (each["rule_name"], *(a["rule_name"] for a in each["rule_attempts"]))
            if name
        }
        self.taken: list[str] = []
        """The rules whose match, or whose row of a table, was taken from the record."""
        rules = [each for each in told if each["policy"] == "rule"]
        self.told_passed = {
            p["rule_name"]: p for each in rules for p in each.get("passed_over", [])
        }
        self.told_rows = {
            one["rule_name"]: one["table"]
            for each in rules
            for one in (*each["rule_attempts"], each)
            if "table" in one
        }
        self.kept_here = ""
        scope = self._scope()
        self.rules = [*scope.get("rules", []), *policy["rules"]]
        self.pattern = scope.get("pattern") or policy["pattern"]
        self.tiers = policy["tiers"] if scope.get("tiers") is None else scope["tiers"]
        self.own_defaults = names_of(scope.get("default"))

    def _scope(self) -> dict[str, Any]:
        """Return the workspace whose path is the longest beginning of the turn's."""
        path = self.facts["workspace_path"] or ""
        parts = path_parts(path) if path.startswith("/") else None
        best: dict[str, Any] = {}
        longest = -1
        for each in self.policy["workspaces"]:
            own = path_parts(each["path"])
            if parts is not None and parts[: len(own)] == own and len(own) > longest:
                best, longest = each, len(own)
        return best

    def decide(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the outcome and the trace."""
        chain: Chain = []
        winner = -1
        slots = (
            self._override, self._sticky, self._rule, self._pattern_slot, self._delegate,
            self._workspace_default, self._global_default,
        )  # fmt: skip
        for slot in slots:
            found = slot()
            chain.append(found)
            if found["verdict"] == "chose":
                winner = len(chain) - 1
                break
            # A request that names its model, and a planner's tier, are served or refused.
            ends = found["policy"] == "delegate_request"
            ends = ends or (found["policy"] == "manual_sticky" and self._is_named())
            if found["verdict"] == "rejected" and ends:
                break
        if winner >= 0:
            unknown = self._unknown(chain[winner]["candidate_model"])
            if unknown:
                chain[winner]["unknown_capabilities"] = unknown
            if chain[winner]["policy"] == "rule" and self.policy["trace_deferred"] != "off":
                chain.append(self._pattern_behind_rule())
        chosen = chain[winner]["candidate_model"] if winner >= 0 else ""
        banners = self._banners(chain, winner)
        trace: dict[str, Any] = {"chain": chain}
        step = self._opinion_step(chain[winner]) if winner >= 0 else None
        if step is not None:
            chosen, trace["opinion"] = step["model"], step
        outcome = {"chosen_model": chosen, "winner_index": winner, "banners": banners}
        return outcome, trace

    # A second opinion.

    def _opinion_step(self, winner: dict[str, Any]) -> dict[str, Any] | None:
        """Return the next step of a second opinion; None where the facts are not of one."""
        opinions, above = self.facts.get("opinions"), winner["candidate_model"]
        is_led = self.facts["is_worker"] or self.facts["delegate_tier"] is not None
        if opinions is None or is_led:
            return None
        plan = None
        if winner["policy"] == "rule":
            named = (each for each in self.rules if each["name"] == winner["rule_name"])
            plan = next((each.get("second_opinion") for each in named), None)
        elif winner["policy"] in {"pattern", "workspace_default", "global_default"}:
            is_on = self.pattern["mode"] == "apply" and not winner.get("is_exploring")
            plan = self.pattern.get("second_opinion") if is_on else None
        if plan is None or above in plan["ask"]:
            return None
        judges = [plan["judge"]] if "judge" in plan else []
        vetoes = {name: self._veto(name) for name in (*plan["ask"], *judges)}
        passed = [attempt("", name, *veto) for name, veto in vetoes.items() if veto is not None]
        kind, model, reason = opinion_choice(plan, opinions, above, vetoes)
        told = {"step": kind, "model": model, "above": above, "reason": reason}
        return {**told, "passed_over": passed}

    # The slots.

    def _is_named(self) -> bool:
        return "named_model" in self.facts and not self.facts["is_worker"]

    def _override(self) -> dict[str, Any]:
        given = self.facts["override"]
        if given is None or self.facts["is_worker"]:
            return silent("per_message_override", "no @model token in message")
        reason = f'override "@{given["alias"]}"'
        return self._by_hand("per_message_override", given["model"], reason)

    def _sticky(self) -> dict[str, Any]:
        if self._is_named():
            return self._by_hand("manual_sticky", self.facts["named_model"], "named in the request")
        model = self.facts["sticky_model"]
        if model is None or self.facts["is_worker"]:
            return silent("manual_sticky", "no sticky model set")
        return self._by_hand("manual_sticky", model, "sticky model of this session")

    def _by_hand(self, slot: str, model: str, reason: str) -> dict[str, Any]:
        found = self._judge(slot, model, reason)
        if found["verdict"] == "rejected" and self._is_local(model):
            self.kept_here = self.kept_here or model
        return found

    def _rule(self) -> dict[str, Any]:
        passed: Chain = []
        found = self._first_rule(passed)
        return {**found, "passed_over": passed} if passed else found

    def _first_rule(self, passed: Chain) -> dict[str, Any]:
        attempts: Chain = []
        for rule in self.rules:
            name = rule["name"]
            holds = self._holds(rule["when"], rule["use"])
            if holds is None:
                holds = name in self.told
                if holds:
                    self.taken.append(name)
                elif name in self.told_passed:
                    passed.append(self.told_passed[name])
            if not holds:
                continue
            if "table" in rule and name not in self.told_rows:
                passed.append(self._passed_table(name))
                continue
            model, more = self._choice(rule)
            veto = self._veto(model)
            if veto is None:
                reason = f'rule "{name}" matched'
                for text in map(draw_text, more.values()):
                    reason += f", {text}"
                found = evaluation("rule", "chose", model, reason)
                return {**found, "rule_name": name, "rule_attempts": attempts, **more}
            row = {"table": more["table"]} if "table" in more else {}
            attempts.append({**attempt(name, model, *veto), **row})
        if not attempts:
            return silent("rule", "no rule matched")
        last = attempts[-1]
        reason = f'rule "{last["rule_name"]}" matched, {last["reason"]}'
        found = evaluation("rule", "rejected", last["candidate_model"], reason)
        return {
            **found,
            "rule_name": last["rule_name"],
            "rule_attempts": attempts,
            "validation_failure": last["validation_failure"],
        }

    def _passed_table(self, name: str) -> dict[str, Any]:
        """Return what the record says of a table that chose nothing; it must say something."""
        if name not in self.told_passed:
            raise NotDerivable(f"rule {name} matched, and the record tells no row of its table")
        self.taken.append(name)
        return dict(self.told_passed[name])

    def _choice(self, rule: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the model of a rule, and its table's row or its split's slot where it has one.

        The row is the record's; its model and its label are those of the policy.
        """
        if "table" in rule:
            self.taken.append(rule["name"])
            told, table = self.told_rows[rule["name"]], rule["table"]
            row = told["row"]
            known = {"model": table.get("default")} if row is None else table["rows"][row]
            if known["model"] is None or told["label"] != known.get("label", "default"):
                raise NotDerivable(f"the table of rule {rule['name']} has no such row")
            return known["model"], {"table": told}
        if "split" not in rule:
            return rule["use"], {}
        model, draw = self._draw(rule)
        return model, {"split": draw}

    def _draw(self, rule: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the model of a split, and the slot in which the turn falls."""
        by, targets = rule["split"]["by"], rule["split"]["targets"]
        unit, total = self._fact("split_units")[by], sum(each["weight"] for each in targets)
        slot = unit_draw(f"routing rule {rule['name']}", unit, total) if unit else None
        left = slot or 0
        for each in targets:
            if left < each["weight"]:
                return each["model"], {"by": by, "slot": slot, "total": total}
            left -= each["weight"]
        raise NotDerivable("a split has no model")

    def _pattern_slot(self) -> dict[str, Any]:  # noqa: PLR0911 - one each
        if self.facts["is_worker"] or self.facts["delegate_tier"] is not None:
            return silent("pattern", "delegate_request_in_flight")
        if self.pattern["mode"] == "off":
            return silent("pattern", "the pattern store is off")
        found = self._recommendation()
        if found is None:
            return silent("pattern", "no similar turns recorded")
        if found["model"] is None:
            return {**silent("pattern", found["reason"]), **found["shown"]}
        if self.pattern["mode"] == "observe":
            reason = f"observing only: would suggest {found['model']}, {found['reason']}"
            return {**silent("pattern", reason), **found["shown"]}
        if self._is_explored(found):
            second = found["shown"]["pattern_alternatives"][1]["model"]
            tried = self._judge("pattern", second, f"exploring the runner-up of {found['model']}")
            if tried["verdict"] == "chose":
                return {**tried, **found["shown"], "is_exploring": True}
        return {**self._judge("pattern", found["model"], found["reason"]), **found["shown"]}

    def _recommendation(self) -> dict[str, Any] | None:
        rows = self.facts["pattern_rows"]
        if "method" not in self.pattern:
            return nearest_recommendation(rows, self.pattern) if rows else None
        evidence = self.facts.get("pattern_evidence")
        if evidence is None and rows:
            evidence = evidence_of_rows(rows, self.pattern["k"])
        return weigh_evidence(evidence, self.pattern) if evidence and evidence["models"] else None

    def _is_explored(self, found: dict[str, Any]) -> bool:
        placed = self.facts["placement"]
        is_local = self.facts["privacy_level"] == "local" or (placed and placed["gate"] != "open")
        drawn, share = self.facts.get("explore_draw"), self.pattern.get("explore")
        has_second = len(found["shown"]["pattern_alternatives"] or []) > 1
        return (
            has_second
            and drawn is not None
            and share is not None
            and not is_local
            and (drawn < share)
        )

    def _pattern_behind_rule(self) -> dict[str, Any]:
        found = self._pattern_slot()
        if found["verdict"] == "not_applicable":
            return found
        return {**found, "verdict": "deferred", "reason": f"{found['reason']}, outranked by rule"}

    def _delegate(self) -> dict[str, Any]:
        tier = self.facts["delegate_tier"]
        if tier is None:
            return silent("delegate_request", "not a delegation")
        said: list[str] = []
        last: dict[str, Any] | None = None
        for step in TIERS[TIERS.index(tier) :]:
            model = self.tiers.get(step)
            if model is None:
                said.append(f"tier {step} has no model")
                if step == tier:
                    break
                continue
            last = self._judge("delegate_request", model, f"tier {step}")
            is_chosen = last["verdict"] == "chose"
            said.append(f"tier {step}" if is_chosen else f"tier {step}: {last['reason']}")
            if is_chosen:
                return {**last, "reason": "; upgraded: ".join(said)}
        reason = "no_model_available_for_tier: " + "; ".join(said)
        if last is None:
            return evaluation("delegate_request", "rejected", None, reason)
        return {**last, "reason": reason}

    def _workspace_default(self) -> dict[str, Any]:
        if not self.own_defaults:
            return silent("workspace_default", "no workspace default set")
        return self._first("workspace_default", self.own_defaults, "workspace default")

    def _global_default(self) -> dict[str, Any]:
        names = names_of(self.policy["global_default"])
        if not names:
            return silent("global_default", "no global default set")
        found = self._first("global_default", names, "global default")
        placed = self.facts["placement"]
        gate = placed["gate"] if placed else self.facts["privacy_level"]
        stays = gate in {"local", "zone"}
        own = (placed or {}).get("local_model") or self.policy.get("local_model")
        own = own or "embedded:smollm2-135m"
        if found["verdict"] == "chose" or not (stays or self.kept_here) or own in names:
            return found
        attempts = found["rule_attempts"] or [lost(found)]
        reason = KEPT.get(gate, "a local model was chosen by hand")
        last = self._judge("global_default", own, reason)
        if last["verdict"] == "rejected":
            attempts = [*attempts, lost(last)]
        return {**last, "rule_attempts": attempts}

    def _first(self, slot: str, names: list[str], reason: str) -> dict[str, Any]:
        attempts: Chain = []
        found: dict[str, Any] = {}
        for number, name in enumerate(names, 1):
            said = reason if len(names) == 1 else f"{reason}, {number} of {len(names)}"
            found = self._judge(slot, name, said)
            if found["verdict"] == "chose":
                break
            if len(names) > 1:
                attempts.append(lost(found))
        return {**found, "rule_attempts": attempts}

    # The vetoes.

    def _judge(self, slot: str, model: str, reason: str) -> dict[str, Any]:
        veto = self._veto(model)
        if veto is None:
            return evaluation(slot, "chose", model, reason)
        return {**evaluation(slot, "rejected", model, veto[1]), "validation_failure": veto[0]}

    def _is_local(self, model: str) -> bool:
        return model in self.models and self.models[model]["location"] == "local"

    def _veto(self, model: str) -> tuple[str, str] | None:
        if self.kept_here and not self._is_local(model):
            reason = f"{model} is in the cloud, and {self.kept_here} was chosen by hand"
            return "privacy_blocked", reason
        return self._rejection(model)

    def _rejection(  # noqa: PLR0911 - one each
        self, model: str
    ) -> tuple[str, str] | None:
        """Return the first of the vetoes that speaks."""
        facts, known = self.facts, self.models.get(model)
        allowed = facts["allowed_models"]
        not_allowed = allowed is not None and model not in allowed
        if known is None:
            if not_allowed:
                return "not_permitted", f"{model} is not among the allowed models"
            return "not_configured", f"{model} is not in the registry"
        stopped = self._stop(model)
        if stopped:
            return "stopped", stopped
        private = self._privacy(model, known)
        if private:
            return "privacy_blocked", private
        if not_allowed:
            return "not_permitted", f"{model} is not among the allowed models"
        if facts["configured"] is not None and model not in facts["configured"]:
            return "not_configured", f"{model} lacks a key or an address"
        out = self._outage(model, known)
        if out:
            return "provider_unavailable", out
        return self._inability(model, known["capabilities"]) or self._budget(model, known)

    def _stop(self, model: str) -> str:
        for each in self.facts.get("stops", []):
            scope, name = each["scope"], each["name"]
            if scope != "provider" or name == provider_of(model):
                what = "every call" if scope == "all" else f"calls of {scope} {name}"
                return f"{what} stopped by {each['by']}: {each['reason']} (stop {each['id']})"
        return ""

    def _privacy(self, model: str, known: dict[str, Any]) -> str:
        placed = self.facts["placement"]
        if placed and placed["gate"] == "closed":
            return f"{placed['rule_id']}: {placed['reason']}"
        if known["location"] == "local":
            return ""
        if placed and placed["gate"] == "local":
            return f"{model} is in the cloud, this turn stays local: {placed['rule_id']}"
        if self.facts["privacy_level"] == "local":
            return f"{model} is in the cloud, this turn stays local"
        zones = (placed or {}).get("zones", [])
        own = known.get("zones", ["cloud"])
        if all(each in {*own, "cloud"} for each in zones):
            return ""
        within = f"this turn stays within {' and '.join(zones)}: {placed['rule_id']}"
        return f"{model} is in {own[0]}, {within}"

    def _outage(self, model: str, known: dict[str, Any]) -> str:
        provider, states = provider_of(model), self.facts["availability"]
        if self.facts["network_state"] == "offline" and known["location"] != "local":
            return f"network: offline, {model} is in the cloud"
        if states.get(provider) == "unavailable":
            return f"all {provider} models temporarily unavailable"
        if "rate_limited" in (states.get(provider), states.get(model)):
            return at_limit(provider)
        if states.get(model) == "unavailable":
            return f"{model} model-specific outage"
        if model in self.facts["excluded_models"]:
            return f"{model} failed earlier in this turn"
        return ""

    def _inability(self, model: str, can: dict[str, Any]) -> tuple[str, str] | None:
        facts, most, tokens = self.facts, can["max_context_tokens"], self._tokens(model)
        if facts["has_images"] and can["supports_images"] is False:
            return "no_vision_support", f"{model} cannot see images"
        if most is not None and tokens > most:
            return "exceeds_context_window", f"{tokens} tokens are past the {most} of {model}"
        if facts["has_tool_definitions"] and can["supports_tools"] is False:
            return "no_tool_support", f"{model} cannot call tools"
        if facts["has_system_prompt"] and can["supports_system_prompt"] is False:
            return "no_system_prompt_support", f"{model} takes no system prompt"
        if facts["requires_structured_output"] and can["supports_structured_output"] is False:
            return "no_structured_output_support", f"{model} cannot promise structured output"
        return None

    def _budget(self, model: str, known: dict[str, Any]) -> tuple[str, str] | None:
        if not self.facts["budgets"]:
            return None
        cost = self._highest_cost(model, known)
        if cost is None:
            told = f"the price of {model} is unknown, and a budget is in force"
            return "over_budget", told
        for each in self.facts["budgets"] if cost else []:
            left = each["left_microusd"]
            if cost > left:
                told = f"budget {each['name']} has ${decimal_text(left, 6)} left"
                return "over_budget", f"{told}, {model} may need ${decimal_text(cost, 6)}"
        return None

    def _highest_cost(self, model: str, known: dict[str, Any]) -> int | None:
        """Return what a call may cost at most: all input at its dearest, the longest answer."""
        price = known["price"]
        if price is None:
            return None
        asked = self.facts.get("max_output_tokens") or 4096
        most = known["capabilities"]["max_output_tokens"]
        output = asked if most is None or most <= 0 else min(asked, most)
        rate = price["input"]
        if rate is not None and price["cache_write"] is not None:
            rate = max(rate, price["cache_write"])
        total = 0
        for tokens, each in ((self._tokens(model), rate), (output, price["output"])):
            if tokens and each is None:
                return None
            total += tokens * (each or 0)
        return divide(total, 10**6)

    def _tokens(self, model: str) -> int:
        counts = self.facts["estimated_input_tokens"]
        return int(counts.get(model, counts.get("*", 0)))

    def _unknown(self, model: str) -> list[str]:
        can, facts = self.models[model]["capabilities"], self.facts
        needs = (
            ("supports_images", facts["has_images"]),
            ("supports_tools", facts["has_tool_definitions"]),
            ("supports_system_prompt", facts["has_system_prompt"]),
            ("supports_structured_output", facts["requires_structured_output"]),
        )
        return [name for name, is_needed in needs if is_needed and can[name] is None]

    # The predicates of rules.

    def _holds(self, when: dict[str, Any], use: str) -> Answer:
        return every(
            self._predicate(name, asked, use) for name, asked in when.items() if asked is not None
        )

    def _predicate(self, name: str, asked: Any, use: str) -> Answer:  # noqa: C901, PLR0911, PLR0912 - one each
        facts = self.facts
        if name == "message_matches":
            return self._matches(asked, self.text)
        if name == "message_contains_any":
            return self._contains(asked)
        if name == "workspace_path_matches":
            path = facts["workspace_path"]
            return False if path is None else self._matches(asked, seen_text(path))
        if name == "estimated_input_tokens_gt":
            return bool(self._tokens(use) > asked)
        if name == "estimated_input_tokens_lt":
            return bool(self._tokens(use) < asked)
        if name in {"has_images", "has_tool_calls_in_history"}:
            return bool(facts[name] is asked)
        if name == "skills_matching_message_includes":
            return any(each in facts["skills_matching_message"] for each in asked)
        if name == "file_extensions_in_context":
            return any(each in facts[name] for each in asked)
        if name == "time_of_day_between":
            return _is_between(facts["local_minutes"], asked["start"], asked["end"])
        if name == "cost_today_exceeds_microusd":
            return bool(facts["cost_today_microusd"] > asked)
        if name == "team_budget_remaining_lt_microusd":
            each = {b["name"] for b in self.policy["budgets"] if b["each"] == "tenant"}
            return any(b["left_microusd"] < asked for b in facts["budgets"] if b["name"] in each)
        if name == "tool_names_include":
            return any(each in self._fact("tool_names") for each in asked)
        if name == "expr":
            # Expressions are not run here: the record is taken at its word.
            return None
        if name == "label_includes":
            return any(each in (self.facts["placement"] or {}).get("labels", []) for each in asked)
        if name == "zone_is":
            return any(each in asked for each in self._zones())
        if name in CALLER_FACTS:
            return any(self._fact("caller")[each] in asked for each in CALLER_FACTS[name])
        return self._tree(name, asked, use)

    def _zones(self) -> list[str]:
        placed = self.facts["placement"] or {}
        if self.facts["privacy_level"] == "local" or placed.get("gate") == "local":
            return ["local"]
        zones: list[str] = placed.get("zones", ["cloud"])
        return zones

    def _fact(self, name: str) -> Any:
        """Return a fact that is recorded only where a rule asks for it."""
        if name not in self.facts:
            raise NotDerivable(f"a rule asks for `{name}`, which was not recorded")
        return self.facts[name]

    def _tree(self, name: str, asked: Any, use: str) -> Answer:
        if name == "any_of":
            return some(self._holds(each, use) for each in asked)
        if name == "all_of":
            return every(self._holds(each, use) for each in asked)
        if name != "not":
            raise NotDerivable(f"the predicate `{name}` is not one this program knows")
        inner = self._holds(asked, use)
        return None if inner is None else not inner

    def _matches(self, pattern: str, text: str | None) -> Answer:
        program = program_of(pattern)
        return None if text is None or isinstance(program, str) else runs(program, text)

    def _contains(self, words: list[str]) -> Answer:
        if self.text is None:
            return None
        text = fold_text(self.text)
        return any(fold_text(each) in text for each in words)

    # What the user is told.

    def _banners(self, chain: Chain, winner: int) -> Chain:
        if winner < 0:
            return [self._no_model(chain)]
        chosen, earlier = chain[winner], chain[:winner]
        if not chosen["rule_name"] and all(e["verdict"] == "not_applicable" for e in earlier):
            # The first slot that spoke is followed: there is nothing to tell.
            return []
        choice = f"{chosen['candidate_model']} ({SLOT_NAMES[chosen['policy']]})"
        found = []
        for each in earlier:
            by_hand = each["policy"] in {"per_message_override", "manual_sticky"}
            if by_hand and each["verdict"] == "rejected":
                lead = f"{each['candidate_model']} ({SLOT_NAMES[each['policy']]})"
                told = f"{lead} could not take this turn: {each['reason']}."
                text = f"{told} Routing fell through to {choice}."
                found.append(banner("turns.choice_rejected", text))
        found += self._outages(chain[: winner + 1], choice, chosen["candidate_model"])
        found += self._budget_banner(chosen)
        return [*found, *self._disagreement(chain, chosen)]

    def _outages(self, chain: Chain, choice: str, model: str) -> Iterator[dict[str, str]]:
        seen: set[str] = set()
        for name in outages_of(chain):
            provider = provider_of(name)
            state = self.facts["availability"].get(provider)
            is_wide = state in {"unavailable", "rate_limited"}
            about = provider if is_wide else name
            if about in seen or name in self.facts["excluded_models"]:
                continue
            seen.add(about)
            fell = "currently unavailable. Routing fell through to"
            if state == "rate_limited":
                text = f"{at_limit(provider)}. Routing fell through to {choice}."
            else:
                text = (
                    f"{provider} provider {fell} {choice}."
                    if is_wide
                    else f"{name} {fell} {model}."
                )
            yield banner(f"turns.{'provider' if is_wide else 'model'}_unavailable", text)

    def _budget_banner(self, chosen: dict[str, Any]) -> Iterator[dict[str, str]]:
        when = next((r["when"] for r in self.rules if r["name"] == chosen["rule_name"]), None)
        spent = self.facts["cost_today_microusd"]
        limit = None if when is None else limit_of(when, spent)
        if limit is not None:
            text = f"Daily budget ${usd(limit)} exceeded (${usd(spent)} today)."
            told = f'{text} Routing per "{chosen["rule_name"]}" rule.'
            yield banner("turns.budget_breaker", told)

    def _disagreement(self, chain: Chain, chosen: dict[str, Any]) -> Iterator[dict[str, str]]:
        settings = self.policy["pattern_disagreement"]
        for each in chain:
            if each["verdict"] != "deferred" or not settings["surface"]:
                continue
            options = each["pattern_alternatives"]
            samples = options[0]["sample_size"] if options else 0
            confidence = each["confidence"] or 0
            if (
                each["validation_failure"] is None
                and each["candidate_model"] != chosen["candidate_model"]
                and confidence >= settings["min_confidence"]
                and samples >= settings["min_sample_size"]
            ):
                text = (
                    f'Routing to {chosen["candidate_model"]} per rule "{chosen["rule_name"]}".'
                    f" Pattern store suggests {each['candidate_model']} (confidence"
                    f" {decimal_text(confidence)}, {samples} similar tasks). /route override to"
                    " use it for this turn, /route ignore to dismiss."
                )
                yield banner("turns.pattern_disagreement", text)

    def _no_model(self, chain: Chain) -> dict[str, str]:
        tier = self.facts["delegate_tier"]
        if tier is not None and chain[-1]["policy"] == "delegate_request":
            text = f"No model available for tier {tier}. {chain[-1]['reason']}."
            return banner("turns.no_model_for_tier", text)
        tried = rejections_of(chain)
        providers = [*dict.fromkeys(provider_of(model) for model, _ in tried)]
        down = "".join(map(self._down, providers))
        listed = ", ".join(f"{model} ({why})" for model, why in tried) or "nothing"
        able = {provider_of(each) for each in self.models if self._rejection(each) is None}
        others = ", ".join(sorted(able - {*providers}))
        hint = f" Other configured providers: {others}." if others else ""
        text = f"No model available for this turn.{down} Tried: {listed}.{hint}"
        end = " Choose one with /model <id>, or see /rules check."
        return banner("turns.no_model", text + end)

    def _down(self, provider: str) -> str:
        state = self.facts["availability"].get(provider)
        if state == "rate_limited":
            return f" {at_limit(provider)}."
        return f" {provider} provider currently unavailable." if state == "unavailable" else ""


CALLER_FACTS = {
    "key_is": ("key_id", "key_name"),
    "tenant_is": ("tenant",),
    "agent_is": ("agent",),
}
SLOT_NAMES = {
    "per_message_override": "@ override",
    "manual_sticky": "sticky model",
    "rule": "rule",
    "pattern": "pattern",
    "delegate_request": "delegation",
    "workspace_default": "workspace default",
    "global_default": "global default",
}


def evaluation(slot: str, verdict: str, model: str | None, reason: str) -> dict[str, Any]:
    """Return what a slot says, with all that it does not say."""
    return {
        "policy": slot, "verdict": verdict, "candidate_model": model, "reason": reason,
        "rule_name": None, "rule_attempts": [], "confidence": None, "pattern_alternatives": None,
        "validation_failure": None, "neighbours": None, "flip_margin": None,
    }  # fmt: skip


def silent(slot: str, reason: str) -> dict[str, Any]:
    """Return what a slot without a candidate says."""
    return evaluation(slot, "not_applicable", None, reason)


def attempt(rule: str, model: str, failure: str, reason: str) -> dict[str, Any]:
    """Return a candidate that lost within its slot."""
    return {
        "rule_name": rule, "candidate_model": model, "validation_failure": failure,
        "reason": reason,
    }  # fmt: skip


def opinion_choice(
    plan: dict[str, Any], opinions: Chain, above: str, vetoes: dict[str, Any]
) -> tuple[str, str, str]:
    """Return the step of a second opinion, the model it is about, and why."""
    is_equal, judge = plan["agree"] == "equal", plan.get("judge")
    usable = [each for each in opinions if each["kind"] != "failed"]
    usable = [each for each in usable if each.get("is_valid") is not False]
    if is_equal:
        first: dict[str, dict[str, Any]] = {}
        for each in usable:
            same = first.setdefault(each["answer"], each)
            if same is not each:
                what = "equal tool calls" if each["kind"] == "tools" else "equal answers"
                return "take", same["model"], f"{what} of {same['model']} and {each['model']}"
    for each in opinions if not is_equal else []:
        name, score = each["model"], each.get("score")
        if plan["agree"] == "valid" and each.get("is_valid") is True:
            return "take", name, f"valid answer of {name}"
        if judge and score is not None and score >= plan["min_score"]:
            return "take", name, f"{judge} gives the answer of {name} {decimal_text(score)}"
    if judge and opinions and vetoes[judge] is None:
        last = opinions[-1]
        if last in usable and "score" not in last:
            return "judge", judge, f"judges the answer of {last['model']}"
    asked = [each["model"] for each in opinions]
    left = [name for name in plan["ask"] if name not in asked and vetoes[name] is None]
    is_open = not judge or vetoes[judge] is None
    if left and is_open and (len(left) >= (2 if is_equal else 1) or (is_equal and usable)):
        return "ask", left[0], f"asked before {above}"
    return "up", above, why_up(plan, opinions)


def why_up(plan: dict[str, Any], opinions: Chain) -> str:
    """Say why the model above takes the turn."""
    if not opinions:
        return "too few of the models may be asked"
    failed = [each["model"] for each in opinions if each["kind"] == "failed"]
    if len(failed) == len(opinions):
        return f"no answer of {', '.join(failed)}"
    asked = " and ".join(each["model"] for each in opinions)
    if plan["agree"] == "judge":
        said = [each["score"] for each in opinions if each.get("score") is not None]
        best = f": {decimal_text(max(said))} at best" if said else ": no verdict"
        return f"{plan['judge']} is not satisfied with {asked}{best}"
    if plan["agree"] == "valid":
        return f"no answer of {asked} is valid by a schema"
    invalid = [each["model"] for each in opinions if each.get("is_valid") is False]
    if invalid or failed:
        names = ", ".join((*failed, *invalid))
        return f"too few answers to compare: none, or no valid one, of {names}"
    return f"the answers of {asked} differ"


def lost(found: dict[str, Any]) -> dict[str, Any]:
    """Return a rejected default as an attempt."""
    return attempt("", found["candidate_model"], found["validation_failure"], found["reason"])


def banner(code: str, text: str) -> dict[str, str]:
    """Return a banner."""
    return {"code": code, "text": text}


def names_of(default: Any) -> list[str]:
    """Return a default, one model or several, as a list."""
    return [] if default is None else [default] if isinstance(default, str) else [*default]


def provider_of(model: str) -> str:
    """Return what stands before the first colon."""
    return model.partition(":")[0]


def at_limit(provider: str) -> str:
    """Say that a provider takes no more for now."""
    return f"{provider} is at its limit of requests or tokens a minute"


def path_parts(path: str) -> list[str]:
    """Return the folders of a path, without `.` and `..`."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return parts


def usd(amount: int) -> str:
    """Write an amount with at least two decimals."""
    whole, _, part = decimal_text(amount, 6).partition(".")
    return f"{whole}.{part.ljust(2, '0')}"


def _is_between(minutes: int, start: int, end: int) -> bool:
    if start == end:
        return True
    return start <= minutes < end if start < end else not end <= minutes < start


def limit_of(when: dict[str, Any], spent: int) -> int | None:
    """Return the daily limit that a condition asks about and that is passed; not inside `not`."""
    own = when["cost_today_exceeds_microusd"]
    if own is not None and spent > own:
        return int(own)
    inner = (limit_of(each, spent) for name in ("all_of", "any_of") for each in when[name] or [])
    return next((each for each in inner if each is not None), None)


def outages_of(chain: Chain) -> Iterator[str]:
    """Name the candidates that lost because they were out, in order."""
    for each in chain:
        for found in (*each["rule_attempts"], each):
            if found["validation_failure"] == "provider_unavailable" and found["candidate_model"]:
                yield found["candidate_model"]


def rejections_of(chain: Chain) -> list[tuple[str, str]]:
    """List every candidate that lost, with its failure, each pair once."""
    rows: list[tuple[str, str]] = []
    for each in chain:
        tried = each["rule_attempts"]
        if not tried and each["verdict"] == "rejected" and each["candidate_model"]:
            tried = [each]
        rows += [(a["candidate_model"], str(a["validation_failure"])) for a in tried]
    return [*dict.fromkeys(rows)]


# Similar turns, by the formula of document 002 §5.5.


def row_order(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the sort key of rows: the nearest first."""
    success = -1 if row["success"] is None else row["success"]
    name = (row["fingerprint_id"], row["model"])
    return (-row["similarity"], *name, -row["sample_size"], row["cost_microusd"], -success)


def nearest_recommendation(rows: Chain, settings: dict[str, Any]) -> dict[str, Any]:
    """Weigh the nearest rows by success and cost."""
    near = sorted(rows, key=row_order)[: settings["k"]]
    sums: dict[str, list[int]] = {}
    for row in near:
        size = row["sample_size"]
        if size <= 0:
            continue
        # success, judged samples, cost, samples
        found = sums.setdefault(row["model"], [0, 0, 0, 0])
        if row["success"] is not None:
            found[0] += row["success"] * size
            found[1] += size
        found[2] += row["cost_microusd"] * size
        found[3] += size
    if not sums:
        shown = _evidence_fields(near, [], 0, None) if near else {}
        return {"model": None, "reason": "no similar turns recorded", "shown": shown}
    weight = settings["cost_weight"]
    options = _rank_nearest(sums, weight)
    is_judged = any(each[1] for each in sums.values())
    top = options[0]["score"]
    confidence = 0
    if top > 0 and is_judged:
        second = options[1]["score"] if len(options) > 1 else 0
        confidence = divide((top - second) * SCALE, top) if len(options) > 1 else SCALE
    margin = None
    if len(options) > 1 and weight < SCALE:
        margin = divide((top - options[1]["score"]) * SCALE, SCALE - weight)
    refusal = _nearest_refusal(options[0], confidence, settings, is_judged=is_judged)
    size = options[0]["sample_size"]
    return {
        "model": None if refusal else options[0]["model"],
        "reason": refusal or f"confidence {decimal_text(confidence)}, {size} samples",
        "shown": _evidence_fields(near, options, confidence, margin),
    }


def _rank_nearest(sums: dict[str, list[int]], weight: int) -> Chain:
    # Means are compared crosswise, as fractions: nothing is rounded before the score.
    def dearness(one: list[int], other: list[int]) -> int:
        return one[2] * other[3] - other[2] * one[3]

    groups = [*sums.values()]
    dear = cheap = groups[0]
    for each in groups:
        dear = each if dearness(each, dear) > 0 else dear
        cheap = each if dearness(cheap, each) > 0 else cheap
    spread = dearness(dear, cheap)
    options = []
    for model, (success, judged, cost, samples) in sums.items():
        saved, whole = 0, 1
        if spread:
            saved = (dear[2] * samples - cost * dear[3]) * cheap[3]
            whole = spread * samples
        counted = judged or 1
        quality = (SCALE - weight) * success * whole + weight * saved * counted * SCALE
        score = divide(quality, SCALE * counted * whole)
        options.append({"model": model, "score": score, "sample_size": samples})
    return sorted(options, key=lambda each: (-each["score"], each["model"]))


def _nearest_refusal(
    top: dict[str, Any], confidence: int, settings: dict[str, Any], *, is_judged: bool
) -> str:
    if not is_judged:
        return "none of the similar turns has a score"
    if top["score"] <= 0:
        return "no model of similar turns scores above 0"
    lead = f"{top['model']} leads with"
    if confidence < settings["min_confidence"]:
        wanted = decimal_text(settings["min_confidence"])
        return f"{lead} confidence {decimal_text(confidence)}, below {wanted}"
    if top["sample_size"] < settings["min_sample_size"]:
        return f"{lead} sample size {top['sample_size']}, below {settings['min_sample_size']}"
    return ""


def _evidence_fields(
    near: Chain, options: Chain, confidence: int, margin: int | None
) -> dict[str, Any]:
    names = ("fingerprint_id", "model", "similarity", "success", "sample_size")
    return {
        "confidence": confidence,
        "pattern_alternatives": options,
        "neighbours": [{name: row[name] for name in names} for row in near],
        "flip_margin": margin,
    }


# Similar turns, by the method `evidence`.

FULL = 65_536
WITHIN = (
    0, 197_412_651, 382_924_923, 546_745_295, 682_689_492, 788_700_453, 866_385_597, 919_881_686,
    954_499_736, 975_551_055, 987_580_669, 994_040_474, 997_300_204, 998_845_950, 999_534_742,
    999_823_165, 999_936_658,
)  # fmt: skip
WHOLE = 4_188_867
STEP_RATIO = 996_714_107_603_024_275_264_145_996_500


@lru_cache(maxsize=1)
def weights_of_steps() -> list[int]:
    """Return the weights of looks, in steps of 2048 less alike than the nearest."""
    found, value = [], FULL * 10**30
    while value >= 10**30:
        found.append(value // 10**30)
        value = value * STEP_RATIO // 10**30
    return [*found, 0]


def weigh_evidence(evidence: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Rank models by the success that is left when the cost is paid."""
    per_usd = evidence["success_per_usd"]
    if per_usd is None:
        per_usd = _success_per_usd(settings["cost_weight"], evidence["models"])
    found = [_estimate(each) for each in evidence["models"]]
    for each in found:
        each["left"] = each["success"] - divide(per_usd * each["cost"], 10**6)
    # A model that another beats in cost and success comes last, and is no rival.
    among = evidence.get("frontier", [each["model"] for each in found])
    found.sort(
        key=lambda each: (each["model"] not in among, -each["left"], each["cost"], each["model"])
    )
    rivals = [each for each in found if each["model"] in among] or found
    confidence, margin = SCALE, None
    if len(rivals) > 1:
        margin = rivals[0]["left"] - rivals[1]["left"]
        confidence = confidence_of(margin, rivals[0]["variance"] + rivals[1]["variance"])
        margin = max(-MAX_INT, min(MAX_INT, margin))
    refusal = _evidence_refusal(found, confidence, settings)
    praise = f"{' over '.join(map(_estimate_text, found[:2]))}, confidence {_percent(confidence)}"
    options = [*map(_option, found)]
    if "optimism" in evidence:
        options[0]["expected_success"] = max(0, found[0]["success"] - evidence["optimism"])
        told = _percent(options[0]["expected_success"])
        praise += f"; {told} where such choices were judged"
    shown = {
        **_evidence_fields(evidence["nearest"], options, confidence, margin),
        "success_per_usd": per_usd,
    }
    if evidence["calibration_id"]:
        shown["calibration_id"] = evidence["calibration_id"]
    return {
        "model": None if refusal else found[0]["model"],
        "reason": refusal or praise,
        "shown": shown,
    }


def _estimate(found: dict[str, Any]) -> dict[str, Any]:
    own = 3 * FULL
    success = divide(
        found["weight"] * found["success"] + own * found["prior_success"], found["weight"] + own
    )
    cost = divide(
        found["cost_weight"] * found["cost_microusd"] + own * found["prior_cost_microusd"],
        found["cost_weight"] + own,
    )
    rows = divide(1000 * found["weight"] ** 2, found["square"]) if found["square"] else 0
    behind = max(rows + 1000 * min(3, found["prior_rows"]), 1000)
    variance = success * (SCALE - success) * 1000 // behind
    return {
        "model": found["model"], "success": success, "cost": cost, "effective": rows,
        "variance": variance, "rows": found["rows"],
    }  # fmt: skip


def _option(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": found["model"], "score": max(-MAX_INT, min(MAX_INT, found["left"])),
        "sample_size": found["rows"], "success": found["success"], "cost_microusd": found["cost"],
        "effective_rows": found["effective"], "standard_error": isqrt(found["variance"]),
    }  # fmt: skip


def _success_per_usd(weight: int, models: Chain) -> int:
    prices = [each["prior_cost_microusd"] for each in models]
    span = max(prices) - min(prices)
    if span == 0 or weight == 0:
        return 0
    if weight >= SCALE:
        return MAX_INT
    return min(MAX_INT, divide(weight * SCALE * 10**6, (SCALE - weight) * span))


def confidence_of(difference: int, variance: int) -> int:
    """Return how sure it is that a difference is real."""
    if variance <= 0:
        return SCALE if difference > 0 else 0
    error = max(1, isqrt(variance))
    quarters, rest = divmod(4 * max(0, difference), error)
    if quarters >= len(WITHIN) - 1:
        return WITHIN[-1]
    low, high = WITHIN[quarters], WITHIN[quarters + 1]
    return low + divide((high - low) * rest, error)


def _evidence_refusal(found: Chain, confidence: int, settings: dict[str, Any]) -> str:
    top = found[0]
    if not any(each["effective"] for each in found):
        return "none of the similar turns has a score"
    lead, least = f"{top['model']} leads with", settings["min_sample_size"]
    if top["effective"] < 1000 * least:
        return f"{lead} {_rows_text(top['effective'])} effective rows, below {least}"
    if confidence < settings["min_confidence"]:
        wanted = decimal_text(settings["min_confidence"])
        return f"{lead} confidence {decimal_text(confidence)}, below {wanted}"
    return ""


def _estimate_text(found: dict[str, Any]) -> str:
    error = _percent(isqrt(found["variance"]))
    rows = _rows_text(found["effective"])
    return f"{found['model']} {_percent(found['success'])} ± {error} of {rows} rows"


def _rows_text(thousandths: int) -> str:
    return decimal_text(divide(thousandths, 100), 1)


def _percent(share: int) -> str:
    return f"{(share + 5_000_000) // 10_000_000} %"


def evidence_of_rows(rows: Chain, k: int) -> dict[str, Any]:
    """Weigh rows that stand in the facts themselves."""
    looks: dict[str, tuple[int, dict[str, list[int]]]] = {}
    totals: dict[str, list[int]] = {}
    for row in rows:
        samples = min(row["sample_size"], 16)
        judged = 0 if row["success"] is None else samples
        cost = min(row["cost_microusd"], 10**9)
        found = [judged, judged * (row["success"] or 0), samples, samples * cost]
        alike = divide(row["similarity"] * WHOLE, SCALE)
        looks.setdefault(row["fingerprint_id"], (alike, {}))[1].setdefault(row["model"], found)
        known = totals.setdefault(row["model"], [0, 0, 0, 0])
        totals[row["model"]] = [a + b for a, b in zip(known, found)]  # noqa: B905 - Python 3.9 has no `strict`
    ordered = sorted(looks.items(), key=lambda each: (-each[1][0], each[0]))
    wanted = k or min(640, max(320, 60 * len(totals)))
    last = ordered[:wanted][-1][1][0]
    near = [each for each in ordered if each[1][0] >= last]
    steps = weights_of_steps()
    best = near[0][1][0]
    weighed = [
        (steps[min((best - alike) // 2048, len(steps) - 1)], by_model)
        for _, (alike, by_model) in near
    ]
    shown = [
        _evidence_row(name, alike, model, found)
        for name, (alike, by_model) in near
        for model, found in sorted(by_model.items())
    ]
    return {
        "models": [_model_sums(*each, weighed) for each in _priors(totals)],
        "looks": len(near),
        "nearest": shown[:5],
        "calibration_id": None,
        "success_per_usd": None,
    }


def _evidence_row(name: str, alike: int, model: str, found: list[int]) -> dict[str, Any]:
    judged, success, samples, cost = found
    return {
        "fingerprint_id": name, "model": model,
        "success": divide(success, judged) if judged else None,
        "cost_microusd": divide(cost, samples or 1), "sample_size": samples,
        "similarity": min(SCALE, max(0, divide(alike * SCALE, WHOLE))),
    }  # fmt: skip


def _priors(totals: dict[str, list[int]]) -> Iterator[tuple[str, int, int, int]]:
    judged, success, samples, cost = (sum(each[n] for each in totals.values()) for n in range(4))
    all_success = divide(success, judged) if judged else SCALE // 2
    all_cost = divide(cost, samples) if samples else 0
    for model, own in sorted(totals.items()):
        mean = divide(own[1] + 10 * all_success, own[0] + 10)
        yield model, mean, divide(own[3], own[2]) if own[2] else all_cost, own[0]


def _model_sums(
    model: str, success: int, cost: int, rows: int, looks: list[tuple[int, dict[str, list[int]]]]
) -> dict[str, Any]:
    own = [(weight, found[model]) for weight, found in looks if model in found]
    weight = sum(w * found[0] for w, found in own)
    cost_weight = sum(w * found[2] for w, found in own)
    return {
        "model": model,
        "rows": sum(1 for w, found in own if w and found[0]),
        "weight": weight,
        "square": sum(w * w * found[0] for w, found in own),
        "success": divide(sum(w * found[1] for w, found in own), weight) if weight else 0,
        "cost_weight": cost_weight,
        "cost_microusd": divide(sum(w * f[3] for w, f in own), cost_weight) if cost_weight else 0,
        "prior_success": success,
        "prior_cost_microusd": cost,
        "prior_rows": rows,
    }


KEPT = {
    "local": "placement keeps this turn here",
    "zone": "placement keeps this turn within zones that hold this machine",
}

# Placement, document 001.

STRENGTH = ("block", "force_local", "force_cloud", "require_confirmation", "warn")


class PlacementAgain:
    """One placement, run again on recorded facts under a recorded policy."""

    def __init__(self, policy: dict[str, Any], facts: dict[str, Any], text: str | None) -> None:
        self.policy, self.facts, self.text = policy, facts, text
        self.steps: Chain = []
        self.looks: Chain = []
        held = [each for each in policy["policy_rules"] if self._rule_holds(each)]
        self.prompts = [e["message"] for e in held if e["action"] == "require_confirmation"]
        self.warnings = [e["message"] for e in held if e["action"] == "warn"]
        self.zones: list[str] = []
        self.bounds: Chain = []
        for rule in held:
            if "zone" in rule:
                self._bind(rule["zone"], "rule", f"policy rule `{rule['id']}`: {rule['message']}")
        for zone in facts.get("stays_within", []):
            self._bind(zone, "facts", "the facts say so")
        for label in facts.get("labels", []):
            if self._label_zone(label) != "local":
                self._bind(self._label_zone(label), "label", f"label `{label}`")
        taint = facts["taint"] or {}
        for zone in taint.get("zones", []):
            self._bind(zone, "taint", f"this session held what must: turn {taint['turn_id']}")
        held = [each for each in held if each["action"] in STRENGTH]
        held.sort(key=lambda each: STRENGTH.index(each["action"]))
        self.strongest = held[0] if held else None
        self.action = self.strongest["action"] if self.strongest else "none"
        override = facts["human_override"]
        if override != "none" and self.action != "block":
            self.action = "force_local" if override == "force_local" else "force_cloud"
        local = facts["local_model"]
        most, limit = local["max_tokens"], policy["token_threshold"]
        self.limit = limit if most is None else min(limit, most)
        self.inputs = {
            "privacy_level": facts["privacy_level"],
            "network_state": facts["network_state"],
            "token_count": facts["token_count"],
            "token_limit": self.limit,
            "is_within_limit": facts["token_count"] <= self.limit,
            "is_local_available": local["available"],
            "is_intent_supported": facts["intent"] in (None, *local["supported_intents"]),
            "policy_action": self.action,
            "human_override": override,
        }
        # at, rule, reason; route, gate, error
        self.at = self.rule_id = self.reason = self.route = self.error = ""
        self.gate, self.may_fall, self.escalates = "open", False, False

    def decide(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the outcome and the trace."""
        if self.facts["failed"] is not None:
            self._after_failure()
        elif not self._by_policy():
            self._by_privacy()
        self._bind_zones()
        self._pass_gates()
        is_route = not self.error
        model = self.facts["local_model"]["model_name"]
        model = model if self.route == "local" else self._cloud_model()
        asks = any(
            each["id"] == self.rule_id and each["requires_confirmation"]
            for each in self.policy["failure_rules"]
        )
        escalates = self.escalates and is_route
        outcome = {
            "route": self.route if is_route else "",
            "model": model if is_route else "",
            "reason": self.reason,
            "rule_id": self.rule_id,
            "fallback_allowed": self.may_fall and is_route,
            "requires_confirmation": (bool(self.prompts) and is_route) or (escalates and asks),
            "log_escalation": escalates,
            "router_version": self.policy["router_version"],
            "error_code": self.error,
            "gate": self.gate,
        }
        trace: dict[str, Any] = {
            "terminated_at": self.at, "steps": self.steps, "evaluated_rules": self.looks,
            "inputs": self.inputs, "prompts": self.prompts, "warnings": self.warnings,
        }  # fmt: skip
        if self.zones:
            outcome["zones"] = self.zones
        if self.bounds:
            trace["bounds"] = self.bounds
        return outcome, trace

    def _end(self, at: str, rule_id: str, reason: str, **more: Any) -> None:
        self.at, self.rule_id, self.reason = at, rule_id, reason
        self.route, self.gate = more.get("route", ""), more.get("gate", "open")
        self.error = more.get("error", "")

    def _note(self, step: str, outcome: str, detail: str) -> None:
        self.steps.append({"step": step, "outcome": outcome, "detail": detail})

    def _rule_holds(self, rule: dict[str, Any]) -> bool:
        return all(map(self._condition_holds, rule["conditions"]))

    def _condition_holds(self, asked: dict[str, Any]) -> bool:
        field, operator, words = asked["field"], asked["operator"], asked["words"]
        if field == "token_count":
            count, number = self.facts["token_count"], asked["number"]
            signs = {
                "exceeds": count > number, "less_than": count < number, "equals": count == number,
                "not_equals": count != number,
            }  # fmt: skip
            return bool(signs[operator])
        if field == "content" and self.text is None:
            raise NotDerivable("a policy rule reads the message: give its text")
        content = (
            str(self.facts[field] or "") if field != "content" else ascii_lower(self.text or "")
        )
        if operator in {"equals", "not_equals"}:
            return bool((content in words) == (operator == "equals"))
        return bool(any(word in content for word in words) == (operator == "contains"))

    def _stays(self) -> tuple[str, str]:
        facts, policy = self.facts, self.policy
        if policy["is_unreadable"]:
            return "TABLE_UNREADABLE", "placement.yaml cannot be read, so nothing leaves"
        if facts["taint"] is not None and "zones" not in facts["taint"]:
            told = f"turn {facts['taint']['turn_id']}, {facts['taint']['rule_id']}"
            return "TAINT_LOCAL", f"this session held what must stay: {told}"
        here = [e for e in facts.get("labels", []) if self._label_zone(e) == "local"]
        if here:
            return "LABEL_LOCAL", f"holds items labelled {', '.join(here)}"
        return self._stays_by_text()

    def _stays_by_text(self) -> tuple[str, str]:
        facts, policy = self.facts, self.policy
        masks = policy.get("masks", [])
        if not policy["stays_local"] and not masks:
            return "", ""
        found = facts["sensitivity"]
        if found is None:
            return "SENSITIVE_UNKNOWN", "nobody looked into the text, so nothing leaves"
        if found["has_failed"]:
            return "SENSITIVE_UNKNOWN", "the detector failed, so nothing leaves"
        masking = facts.get("masking")
        is_masked = masking is not None and "obstacle" not in masking
        kinds = [
            each
            for each in found["kinds"]
            if must_stay(each, policy["stays_local"], masks, is_masked=is_masked)
        ]
        if not kinds:
            return "", ""
        why = f"holds {', '.join(kinds)}"
        if masking is not None and "obstacle" in masking:
            why += f", which cannot be masked: {masking['obstacle']}"
        return "SENSITIVE_LOCAL", why

    def _mask_note(self) -> str:
        masking = self.facts.get("masking")
        if masking is None or "obstacle" in masking or not self.policy.get("masks"):
            return ""
        told = ", ".join(f"{each['count']} {each['kind']}" for each in masking["kinds"])
        return f"; masked where it leaves: {told}" if told else ""

    def _by_whom(self) -> str:
        override = self.facts["human_override"]
        if self.action != "block" and override != "none":
            return f"human override {override}"
        rule = self.strongest
        return f"policy rule `{rule['id']}`: {rule['message']}" if rule else ""

    def _by_policy(self) -> bool:
        at, by = "policyEnforcement", self._by_whom()
        if self.action in {"none", "require_confirmation", "warn"}:
            self._note(at, "passedThrough", f"policy action {self.action}")
            return False
        if self.action == "block":
            self._note(at, "threw", by)
            self._end(at, "POLICY_BLOCK", by, error="E-ROUTE-001", gate="closed")
            return True
        if self.action == "force_local":
            self._note(at, "terminated", by)
            self._end(at, "POLICY_FORCE_LOCAL", by, route="local", gate="local")
            return True
        rule_id, why = self._stays()
        if self.facts["privacy_level"] == "local":
            rule_id, why = "PRIVACY_LOCAL", "the privacy level is local"
        if rule_id:
            reason = f"{by}, but {why} ({rule_id})"
            self._note(at, "threw", reason)
            self._end(at, "POLICY_FORCE_CLOUD", reason, error="E-ROUTE-002", gate="closed")
        else:
            self._note(at, "terminated", by)
            self._end(at, "POLICY_FORCE_CLOUD", by + self._mask_note(), route="cloud")
        return True

    def _by_privacy(self) -> None:
        at, level = "privacyEnforcement", self.facts["privacy_level"]
        rule_id, why = ("", "") if level == "local" else self._stays()
        if rule_id:
            self._note(at, "terminated", why)
            self._end(at, rule_id, why, route="local", gate="local")
        elif level in {"local", "cloud"}:
            self._by_table(at)
        else:
            self._note(at, "passedThrough", "privacy level auto, nothing must stay")
            self._by_table("autoModeLogic")

    def _by_table(self, at: str) -> None:
        level = self.facts["privacy_level"]
        rules = [each for each in self.policy["rules"] if each["privacy_level"] == level]
        for rule in rules:
            holds = rule["is_otherwise"] or self._row_holds(rule)
            self._look(rule["id"], rule["says"], holds)
            if not holds:
                continue
            binds = rule["route"] == "local" and (
                level == "local" or self.policy["auto"] == "binding"
            )
            says = rule["says"]
            if self.limit < self.policy["token_threshold"] and any(r["token_count"] for r in rules):
                says += f"; token limit {self.limit}, the most the local model takes"
            says += self._mask_note()
            self._note(at, "terminated", rule["id"])
            gate = "local" if binds else "open"
            self._bind_row(rule)
            self._end(at, rule["id"], says, route=rule["route"], gate=gate)
            self.may_fall = rule["fallback_allowed"]
            return
        reason = f"no rule holds for privacy level {level}"
        self._note(at, "threw", reason)
        self._end(at, "NO_RULE", reason, error="E-ROUTE-001", gate="closed")

    def _row_holds(self, rule: dict[str, Any]) -> bool:
        asked = (
            (rule["local_model_available"], self.inputs["is_local_available"]),
            (rule["intent_supported_by_local"], self.inputs["is_intent_supported"]),
        )
        count, limit = self.facts["token_count"], self.limit
        signs = {
            None: True, "lte": count <= limit, "lt": count < limit, "gt": count > limit,
            "gte": count >= limit,
        }  # fmt: skip
        return all(a is None or a == b for a, b in asked) and signs[rule["token_count"]]

    def _look(self, rule_id: str, says: str, holds: bool) -> None:  # noqa: FBT001 - a value told
        self.looks.append({"rule_id": rule_id, "condition": says, "has_matched": holds})

    def _after_failure(self) -> None:
        at, failed = "failureHandling", self.facts["failed"]
        for rule in self.policy["failure_rules"]:
            asked = rule["fallback_allowed"]
            says = f"route = {rule['route']} and execution_failed"
            if asked is not None:
                says += f" and {'' if asked else 'not '}initial_decision.fallback_allowed"
            holds = rule["route"] == failed["route"] and asked in (None, failed["fallback_allowed"])
            self._look(rule["id"], says, holds)
            if not holds:
                continue
            if rule["to"]:
                self._escalate(rule)
                return
            reason = f"{failed['route']} execution failed after {failed['rule_id']}"
            self._note(at, "threw", rule["id"])
            gate = "local" if failed["route"] == "local" else "open"
            self._end(at, rule["id"], reason, error=rule["error_code"], gate=gate)
            return
        reason = f"no failure rule holds for a failed {failed['route']} execution"
        self._note(at, "threw", reason)
        self._end(at, "NO_RULE", reason, error="E-ROUTE-001", gate="closed")

    def _escalate(self, rule: dict[str, Any]) -> None:
        at = "failureHandling"
        stays, why = self._stays()
        if self.facts["privacy_level"] == "local":
            stays, why = "PRIVACY_LOCAL", "the privacy level is local"
        elif self.action in {"block", "force_local"}:
            stays, why = f"POLICY_{self.action.upper()}", self._by_whom()
        if stays:
            reason = f"the stored decision allows a fallback, but {why} ({stays})"
            self._note(at, "threw", reason)
            self._end(at, rule["id"], reason, error="E-ROUTE-002", gate="local")
            return
        for row in self.policy["rules"]:
            if row["privacy_level"] == "auto":
                self._bind_row(row)
        self._note(at, "terminated", rule["id"])
        reason = "local execution failed, the stored decision allows a fallback"
        self._end(at, rule["id"], reason, route=rule["to"])
        self.escalates = True

    def _bind(self, zone: str, source: str, why: str) -> None:
        self.bounds.append({"zone": zone, "source": source, "why": why})

    def _label_zone(self, label: str) -> str:
        known = {each["name"]: each["within"] for each in self.policy.get("labels", [])}
        return str(known.get(label, "local"))

    def _bind_row(self, row: dict[str, Any]) -> None:
        if "zone" in row:
            self._bind(row["zone"], "row", f"the table's row {row['id']}")

    def _bind_zones(self) -> None:
        """Hold the question within the innermost of the zones that something names."""
        if not self.bounds:
            return
        known = self.policy.get("zones", {})
        named = {each["zone"] for each in self.bounds} - {"cloud"}
        wider = {outer for each in named for outer in known.get(each, [])}
        self.zones = ["local"] if "local" in named else sorted(named - wider)
        if not self.zones:
            return
        if self.gate == "open":
            self.gate = "zone"
        first = {each["zone"]: each["why"] for each in reversed(self.bounds)}
        self.reason += "; stays within " + " and ".join(f"{e} ({first[e]})" for e in self.zones)

    def _cloud_model(self) -> str:
        """Return the first model of the cloud that lies within the zones."""
        known = self.policy.get("zones", {})
        model: str = self.facts["cloud_model"]
        for each in self.facts.get("cloud_models", []) if self.zones else []:
            around = [] if each["zone"] == "cloud" else [each["zone"], *known.get(each["zone"], [])]
            if set(self.zones) <= set(around):
                return str(each["name"])
        return "" if self.zones else model

    def _pass_gates(self) -> None:
        facts = self.facts
        if self.error or not self.route:
            return
        if self.route == "local":
            if not facts["local_model"]["available"]:
                self.error = "E-LOCAL-001"
                self.reason += f"; {facts['local_model']['model_name']} is not available"
                self._note(self.at, "threw", "the local model is not available")
        elif facts["network_state"] == "offline":
            reason = f"{self.rule_id} says cloud, and the network is offline"
            self._note("networkGate", "threw", "offline")
            self.may_fall = self.escalates = False
            gate = self.gate
            self._end("networkGate", "NETWORK_UNAVAILABLE", reason, error="E-NET-001", gate=gate)
        elif not self._cloud_model():
            within = f" within {' and '.join(self.zones)}" if self.zones else ""
            self.error = "E-CLOUD-001"
            self.reason += f"; no cloud model{within} is configured"
            self._note(self.at, "threw", f"no cloud model{within} is configured")
        else:
            is_slow = facts["network_state"] == "degraded"
            self.reason += "; network degraded" if is_slow else ""
            detail = "degraded: reachable but slow" if is_slow else "online"
            self._note("networkGate", "passedThrough", detail)


def must_stay(kind: str, stays: list[str], masks: list[str], *, is_masked: bool) -> bool:
    """Tell whether a kind stays: listed more closely as one to be masked, it stays unmasked."""
    group, _, name = kind.partition(".")
    closeness = [
        2 if kind in named or name in named else int(group in named) for named in (stays, masks)
    ]
    return closeness[0] > 0 if closeness[1] <= closeness[0] else not is_masked


def draw_text(draw: dict[str, Any]) -> str:
    """Say where a turn fell in a split, or which row of a table took it."""
    if "row" in draw:
        if draw["row"] is None:
            return f"the default of table {draw['decision']}: {draw['reason']}"
        return f"row {draw['row'] + 1} ({draw['label']}) of table {draw['decision']}"
    if draw["slot"] is None:
        return f"no {draw['by']} is known: the first of the split"
    return f"its {draw['by']} is in slot {draw['slot']} of {draw['total']}"


def unit_draw(salt: str, unit: str, total: int = SCALE) -> int:
    """Return the slot `wb1` of a unit (docs/reference/wb1.md)."""
    parts = (salt.encode(), b"s:" + unit.encode())
    framed = b"".join(struct.pack(">I", len(part)) + part for part in parts)
    return int.from_bytes(sha256(b"wb1\0" + framed)[:8], "big") * total >> 64


# Receipts: docs/receipt-format.md.

RECEIPT = "pointsman/receipt/1"
RECEIPT_KEYS = {
    "bodies", "checkpoints", "disclosure", "entries", "format", "keys", "ledger", "rotations",
    "signature", "texts", "turn",
}  # fmt: skip
PLACE_KEYS = ENTRY | {"chain", "proof"}
RECEIPT_KINDS = {
    "bodies": "dict", "checkpoints": "list", "entries": "list", "disclosure": "str",
    "keys": "list", "ledger": "str", "rotations": "list", "signature": "dict", "texts": "list",
    "turn": "str",
}  # fmt: skip
ENTRY_KINDS = {
    "at": "int", "attached": "list", "chain": "str", "id": "str", "kind": "str", "ref": "str",
    "seq": "int",
}  # fmt: skip
TOLD_KEYS = {"full": {"payload", "salt"}, "redacted": {"view"}, "minimal": {"view"}}
MOST_RECEIPT = 64 << 20
NOT_YET = "no checkpoint covers it yet: ask for the receipt again in five seconds"


class StepResult(NamedTuple):
    """One step of the verification: `ok`, `failed`, `not yet`, or `not run` and why."""

    step: str
    state: str
    told: str


class ReceiptAudit:
    """One receipt on its way through the steps; the first that fails ends them."""

    def __init__(self, data: bytes, expected: str = "", message: bytes | None = None) -> None:
        self.data, self.expected, self.message = data, expected, message
        self.value: dict[str, Any] = {}
        self.ring = Audit(io.BytesIO())
        self.checks: list[StepResult] = []
        self.records: dict[int, dict[str, Any]] = {}
        """The parsed payloads of a full receipt, by the place of their entry."""
        self.opened: dict[str, str] = {}
        """The texts that the message opened, by their seals."""

    def run(self) -> list[StepResult]:
        """Take every step, up to the first that fails."""
        steps = (
            ("form", self._form), ("key", self._key), ("entries", self._entries),
            ("checkpoints", self._checkpoints), ("inclusion", self._inclusion),
            ("facts and policy", self._inputs), ("links", self._links),
            ("message", self._message), ("placement", self._placement),
            ("decision", self._decision), ("signature", self._signature),
        )  # fmt: skip
        for name, step in steps:
            try:
                state, told = step()
            except BundleBroken as bad:
                self.checks.append(StepResult(name, "failed", str(bad)))
                break
            except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
                told = f"a part is missing or of another kind: {type(error).__name__} {error}"
                self.checks.append(StepResult(name, "failed", told[:200]))
                break
            self.checks.append(StepResult(name, state, told))
        return self.checks

    @property
    def is_full(self) -> bool:
        """Whether the receipt tells everything."""
        return bool(self.value["disclosure"] == "full")

    def _form(self) -> tuple[str, str]:
        line = self.data if self.data.endswith(b"\n") else self.data + b"\n"
        self.value = parse(line)
        need(set(self.value) == RECEIPT_KEYS, "a member is missing or unknown")
        kinds = _kinds(self.value)
        is_right = kinds.items() >= RECEIPT_KINDS.items()
        need(is_right, "a member is of another kind")
        need(self.value["format"] == RECEIPT, "it is not a receipt of this version")
        told = TOLD_KEYS.get(self.value["disclosure"])
        need(told is not None, "its disclosure is unknown")
        need(self.value["entries"], "it has no entry")
        for each in self.value["entries"]:
            is_whole = isinstance(each, dict) and set(each) == PLACE_KEYS | (told or set())
            need(is_whole, "an entry lacks a member")
            need(
                _kinds(each).items() >= ENTRY_KINDS.items(), "an entry's member is of another kind"
            )
        is_right = all(isinstance(each, dict) for each in self.value["texts"])
        need(is_right, "a text lacks a member")
        need(self.is_full or not self.value["bodies"], "it tells more than it says")
        count = len(self.value["entries"])
        counted = f"{count} {'entry' if count == 1 else 'entries'}"
        return "ok", f"{self.value['disclosure']}, {counted} of turn {self.value['turn']}"

    def _key(self) -> tuple[str, str]:
        ring = self.ring
        ring.ledger = unhex(self.value["ledger"], 16).hex()
        ring.keys = [unhex(each, 32) for each in self.value["keys"]]
        ring.follow(self.value["rotations"])
        ids = [key_id(each) for each in ring.keys]
        is_newest = self.value["signature"]["key"] == ids[-1]
        need(is_newest, "it is signed by another key than its newest")
        if not self.expected:
            return "not run", f"{ids[0]}: {UNKNOWN_KEY}"
        first = max((n for n, name in enumerate(ids, 1) if name in ring.compromised), default=0)
        told = f"none of its keys follows from {self.expected}: {', '.join(ids)}"
        need(self.expected in ids[first:], told)
        return "ok", f"{ids[-1]} is the expected key, or follows from it"

    def _entries(self) -> tuple[str, str]:
        before: dict[str, tuple[int, str]] = {}
        order = []
        for place, each in enumerate(self.value["entries"]):
            unhex(each["hash"], 32)
            if self.is_full:
                found = self._hash(each).hex()
                need(found == each["hash"], f"{_name(each)} is not what its hash was taken over")
                self.records[place] = DECODER.decode(each["payload"])
            seq, last = before.get(each["chain"], (-2, ""))
            is_next = each["seq"] != seq + 1 or each["prev"] == last
            need(is_next, f"{_name(each)} does not follow the entry before it")
            before[each["chain"]] = each["seq"], each["hash"]
            order.append((each["at"], each["chain"], each["seq"]))
        need(len({*order}) == len(order), "an entry stands twice")
        if not self.is_full:
            return (
                "not run",
                "payloads are not disclosed: what is told of them rests on the signature",
            )
        return "ok", "every hash is that of the entry's own bytes"

    def _hash(self, each: dict[str, Any]) -> bytes:
        name = each["chain"].encode()
        prefix = b"pointsman/entry/1\0" + unhex(self.value["ledger"], 16)
        prefix += struct.pack(">H", len(name)) + name
        attached = b"".join(unhex(one, 32) for one in each["attached"])
        parts = [each["kind"].encode(), each["id"].encode(), each["ref"].encode(), attached]
        parts.append(each["payload"].encode())
        fixed = (whole(each["seq"]), unhex(each["prev"], 32), whole(each["at"]))
        head = struct.pack(">Q32sqHHHHI", *fixed, *map(len, parts))
        return sha256(b"\0" + prefix + head + b"".join(parts))

    def _checkpoints(self) -> tuple[str, str]:
        notes = self.value["checkpoints"]
        for number, text in enumerate(notes):
            origin = text.split("\n", 1)[0]
            is_ours = re.fullmatch(f"pointsman/{self.value['ledger']}/{CHAIN.pattern}", origin)
            need(is_ours, f"checkpoint {number} is not of this ledger")
            self.ring.chain = origin.rpartition("/")[2]
            note_parts(origin, text, self.ring.current)
        proofs = [each["proof"] for each in self.value["entries"] if each["proof"] is not None]
        used = {each["checkpoint"] for each in proofs}
        need(used == {*range(len(notes))}, "a checkpoint covers no entry of the receipt")
        return ("ok" if notes else "not yet"), f"{len(notes)} signed by a key of this ledger"

    def _inclusion(self) -> tuple[str, str]:
        late = 0
        for each in self.value["entries"]:
            proof = each["proof"]
            if proof is None:
                late += 1
                continue
            need(set(proof) == {"checkpoint", "path"}, "a proof lacks a member")
            note = self.value["checkpoints"][whole(proof["checkpoint"])]
            origin, size, root = note.split("\n", 3)[:3]
            path = [unhex(one, 32) for one in proof["path"]]
            leaf = unhex(each["hash"], 32)
            found = root_by_path(leaf, whole(each["seq"]), int(size), path)
            is_there = found is not None and base64.b64encode(found).decode() == root
            is_own = origin.rpartition("/")[2] == each["chain"]
            need(is_there and is_own, f"{_name(each)} is not in the tree its checkpoint signs")
        if late:
            return "not yet", f"{late} entries: {NOT_YET}"
        return "ok", "every entry is in a tree that a checkpoint signs"

    def _inputs(self) -> tuple[str, str]:
        if not self.is_full:
            return "not run", "facts and policy are not disclosed"
        used = set()
        for place, each in self._decisions():
            record = self.records[place]["decision"]
            facts, policy = record["facts_id"], record["policy_id"]
            is_carried = each["attached"][:1] == [facts.partition(":")[2]]
            need(is_carried, f"{_name(each)} does not carry the facts it names")
            for name in (facts, policy):
                found = "sha256:" + sha256(self.value["bodies"][name].encode()).hex()
                need(found == name, f"{name} is not the digest of its body")
                used.add(name)
        need(used == {*self.value["bodies"]}, "a body belongs to no decision")
        return "ok", f"{len(used)} bodies have the digests that the decisions name"

    def _decisions(self) -> list[tuple[int, dict[str, Any]]]:
        entries = enumerate(self.value["entries"])
        return [(n, each) for n, each in entries if each["kind"].startswith("decision.")]

    def _body(self, place: int, name: str) -> dict[str, Any]:
        return dict(DECODER.decode(self.value["bodies"][self.records[place]["decision"][name]]))

    def _links(self) -> tuple[str, str]:
        known: dict[str, dict[str, Any]] = {}
        placed: dict[str, Any] | None = None
        before: dict[str, Any] | None = None
        for place, each in enumerate(self.value["entries"]):
            if each["kind"] == "outcome":
                need(each["ref"] in known, f"{_name(each)} ends no decision of the receipt")
                self._check_call(each, known[each["ref"]], place)
                continue
            is_about = each["kind"].startswith("decision.") and each["ref"] == self.value["turn"]
            need(is_about, f"{_name(each)} is not about this turn")
            decision = self._record_of(place)["decision"]
            kind = each["kind"].split(".")[1]
            need(decision["kind"] == kind, f"{_name(each)} holds a decision of another kind")
            known[each["id"]] = decision
            if not self.is_full:
                continue
            facts = self._body(place, "facts_id")
            if kind == "placement":
                placed = self.records[place]["decision"]
            else:
                self._check_turn(each, facts, placed, before)
                before = {"facts": facts, **decision}
        is_there = any(each["kind"] == "decision.turn" for each in self.value["entries"])
        need(is_there, "the turn's own decision is missing")
        return "ok", "decisions, calls and facts name each other as they should"

    def _record_of(self, place: int) -> dict[str, Any]:
        return self.records[place] if self.is_full else self.value["entries"][place]["view"]

    def _check_call(self, each: dict[str, Any], decision: dict[str, Any], place: int) -> None:
        model = self._record_of(place)["detail"]["model"]
        is_own = model == decision["outcome"]["chosen_model"]
        need(is_own, f"{_name(each)} is a call of {model}, which its decision did not choose")

    def _check_turn(
        self,
        each: dict[str, Any],
        facts: dict[str, Any],
        placed: dict[str, Any] | None,
        before: dict[str, Any] | None,
    ) -> None:
        if placed is not None:
            told, outcome = facts["placement"], placed["outcome"]
            is_same = told["policy_id"] == placed["policy_id"] and all(
                told[name] == outcome[name] for name in ("rule_id", "gate", "reason")
            )
            need(is_same, f"{_name(each)} rests on another placement than the one recorded")
        if each["kind"] == "decision.turn.fallback" and before is not None:
            failed = [*before["facts"]["excluded_models"], before["outcome"]["chosen_model"]]
            is_after = facts["excluded_models"] == failed
            need(is_after, f"{_name(each)} does not exclude the model that failed before it")
        if "explore_draw" in facts:
            drawn = unit_draw("pattern.explore", self.value["turn"])
            need(facts["explore_draw"] == drawn, f"{_name(each)} drew another number than its turn")

    def _message(self) -> tuple[str, str]:
        texts = self.value["texts"]
        if self.is_full:
            seals = {self._seal(place)["digest"] for place, _ in self._decisions()}
            need(seals == {each["seal"] for each in texts}, "a text is missing or unknown")
        for each in texts:
            salt = unhex(each.get("salt", "00" * 32), 32)
            for text in forms_of(self.message or b""):
                if commitment(salt, text) == each.get("commitment"):
                    found = text.decode("utf-8", "surrogatepass")
                    need(len(found) == each["chars"], "the text has another length than its seal")
                    self.opened[each["seal"]] = found
        gone = [each["missing"] for each in texts if "missing" in each]
        if self.message is None:
            return "not run", gone[0] if gone else "give the message's text to open its commitment"
        if gone and not self.opened:
            return "not run", gone[0]
        need(not texts or self.opened, "this is not the message the answer was given to")
        return ("ok", "the message opens its commitment") if texts else ("not run", "not disclosed")

    def _seal(self, place: int) -> dict[str, Any]:
        facts = self._body(place, "facts_id")
        seal = facts["message"] if "message" in facts else facts["content"]
        return dict(seal)

    def _placement(self) -> tuple[str, str]:
        places = [n for n, each in self._decisions() if each["kind"] == "decision.placement"]
        if not self.is_full:
            return "not run", "facts and policy are not disclosed"
        if not places:
            return "not run", "it binds nothing, and is a fact of the decision"
        for place in places:
            policy, facts = self._body(place, "policy_id"), self._body(place, "facts_id")
            text = self.opened.get(facts["content"]["digest"])
            try:
                again = PlacementAgain(policy, facts, text).decide()
            except NotDerivable as error:
                return "not run", str(error)
            self._compare(place, again)
        return "ok", "derived again, byte for byte"

    def _decision(self) -> tuple[str, str]:
        if not self.is_full:
            return self._view()
        taken: list[str] = []
        for place, each in self._decisions():
            if each["kind"] == "decision.placement":
                continue
            record = self.records[place]["decision"]
            need(record["decision_version"] == 1, "it is of a decision version unknown here")
            policy, facts = self._body(place, "policy_id"), self._body(place, "facts_id")
            text = self.opened.get(facts["message"]["digest"])
            turn = TurnAgain(policy, facts, text, record["trace"]["chain"])
            self._compare(place, turn.decide())
            taken += turn.taken
        if taken:
            names = ", ".join(dict.fromkeys(taken))
            return "ok", f"derived again, byte for byte; matched by the record, not run: {names}"
        return "ok", "derived again, byte for byte"

    def _compare(self, place: int, again: tuple[Any, Any]) -> None:
        record = self.records[place]["decision"]
        for name, found in zip(("outcome", "trace"), again):  # noqa: B905 - Python 3.9 has no `strict`
            place_of = first_difference(record[name], found, name)
            told = f"{_name(self.value['entries'][place])} does not follow: {place_of}"
            need(not place_of, told)

    def _view(self) -> tuple[str, str]:
        for place, each in self._decisions():
            outcome = self._record_of(place)["decision"]["outcome"]
            trace = self._record_of(place)["decision"].get("trace")
            if each["kind"] == "decision.placement" or trace is None:
                continue
            winner = outcome["winner_index"]
            chosen = trace["chain"][winner]["candidate_model"] if winner >= 0 else ""
            need(chosen == outcome["chosen_model"], "the slot that won chose another model")
        return "not run", "facts and policy are not disclosed"

    def _signature(self) -> tuple[str, str]:
        given = self.value["signature"]
        need(set(given) == {"key", "signature"}, "the signature lacks a member")
        bare = {name: each for name, each in self.value.items() if name != "signature"}
        digest = sha256(ENCODER.encode(bare).encode())
        message, signature = b"pointsman/receipt/1\0" + digest, unhex(given["signature"], 64)
        is_signed = verifies(self.ring.keys[-1], message, signature)
        need(is_signed, "the receipt is not what its key signed")
        return "ok", f"signed as a whole by {given['key']}"


def _kinds(value: dict[str, Any]) -> dict[str, str]:
    return {name: type(each).__name__ for name, each in value.items()}


def _name(each: dict[str, Any]) -> str:
    return f"{each['kind']} {each['chain']}/{each['seq']}"


def forms_of(message: bytes) -> Iterator[bytes]:
    """Return a message as it may have been sealed: without a last newline, without an `@alias`."""
    for text in (message, message[:-1] if message.endswith(b"\n") else message):
        yield text
        yield re.sub(rb"\A@[A-Za-z0-9_.:/-]*\s+", b"", text)
        yield text[1:] if text.startswith(b"\\@") else text


def commitment(salt: bytes, text: bytes) -> str:
    """Commit to a text."""
    return sha256(b"pointsman/text/1\0" + salt + text).hex()


def root_by_path(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:
    """Return the root that a path of RFC 6962 leads to; None where it does not fit the tree."""
    place, last, found = index, size - 1, leaf
    for each in path:
        if last == 0 or index >= size:
            return None
        if place & 1 or place == last:
            found = sha256(b"\1" + each + found)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = sha256(b"\1" + found + each)
        place, last = place >> 1, last >> 1
    return found if last == 0 and index < size else None


def first_difference(recorded: Any, found: Any, place: str) -> str:
    """Tell where two values differ first; empty where they are equal."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key in sorted({*recorded, *found}):
            told = first_difference(recorded.get(key), found.get(key), f"{place}.{key}")
            if told or (key in recorded) != (key in found):
                return told or f"{place}.{key} stands in one of the two alone"
        return ""
    if isinstance(recorded, list) and isinstance(found, list):
        for number, pair in enumerate(zip(recorded, found)):  # noqa: B905 - Python 3.9 has no `strict`
            told = first_difference(*pair, f"{place}[{number}]")
            if told:
                return told
        is_same = len(recorded) == len(found)
        return "" if is_same else f"{place} has {len(recorded)} parts, derived {len(found)}"
    if type(recorded) is type(found) and recorded == found:
        return ""
    return f"{place} is {_short(recorded)}, derived {_short(found)}"


def _short(value: Any) -> str:
    return ENCODER.encode(value)[:120]


def audit_receipt(data: bytes, expected: str = "", message: bytes | None = None) -> dict[str, Any]:
    """Verify a receipt; `message` is the text it was given for, if it is at hand."""
    if len(data) > MOST_RECEIPT:
        raise Unusable("the receipt is too large")
    checks = ReceiptAudit(data, expected, message).run()
    states = {each.state for each in checks}
    verdict = "failed" if "failed" in states else "not yet" if "not yet" in states else "ok"
    return {"verdict": verdict, "checks": [each._asdict() for each in checks]}


MARKS = {"ok": "ok     ", "failed": "FAILED ", "not yet": "not yet", "not run": "-      "}


def receipt_lines(report: dict[str, Any]) -> Iterator[str]:
    """Tell a report about a receipt in lines of text."""
    for each in report["checks"]:
        yield f"{MARKS[each['state']]}  {each['step']:<16}  {each['told']}"
    told = {"ok": "nothing differs", "failed": "IT DIFFERS", "not yet": "NOT YET PROVEN"}
    yield f"receipt: {told[report['verdict']]}"


def main(arguments: list[str] | None = None) -> int:
    """Run as a command: exit 0 intact, 1 not intact or not yet proven, 2 unusable input."""
    parser = argparse.ArgumentParser(description="Verify a receipt or an exported ledger bundle.")
    parser.add_argument("file", help="a receipt, or a bundle")
    parser.add_argument("--key", default="", help="the key id or public key the owner published")
    parser.add_argument("--message", help="a file with the message the receipt's answer was for")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    try:
        report, told = _report_of(Path(options.file), expected_key(options.key), options.message)
    except (OSError, ValueError, Unusable) as error:
        sys.stderr.write(f"cannot verify {options.file!a}: {error}\n")
        return 2
    text = json.dumps(report, sort_keys=True) if options.json else "\n".join(told(report))
    sys.stdout.write(text + "\n")
    return 0 if report.get("is_intact", report.get("verdict") == "ok") else 1


def _report_of(
    path: Path, expected: str, message: str | None
) -> tuple[dict[str, Any], Callable[[dict[str, Any]], Iterator[str]]]:
    with path.open("rb") as lines:
        # A bundle's first line begins with its format, a receipt with its bodies.
        if lines.read(10) != b'{"bodies":':
            lines.seek(0)
            return audit(lines, expected), report_lines
        lines.seek(0)
        data = lines.read(MOST_RECEIPT + 1)
    text = None if message is None else Path(message).read_bytes()
    return audit_receipt(data, expected, text), receipt_lines


if __name__ == "__main__":
    sys.exit(main())
