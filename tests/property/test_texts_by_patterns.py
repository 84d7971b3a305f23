"""Texts that are found by patterns, and that there are none, against RE2 on every short text."""

from itertools import product
from random import Random

import pytest
import re2

from pointsman.errors import PolicyTooComplex
from pointsman.kernel.regex import options
from pointsman.turns.proofs.solver import Solver
from pointsman.turns.proofs.texts import TextSearch

SIGNS = (
    "a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\w", "A", "(?i:a)", r"\W", "k", "(?i:K)", "_", " ",
    r"\x61", r"[[:alpha:]]", r"\pL", r"\Qa.\E", "(?s:.)", r"\t", r"\141",
)  # fmt: skip
EDGES = ("^", "$", r"\b", r"\B", r"\A", r"\z", "(?m:^)", "(?m:$)")
TEXTS = tuple("".join(each) for length in range(4) for each in product("abA 1\nk", repeat=length))


def draw(random: Random, depth: int = 0) -> str:
    """Draw a pattern of RE2."""
    kind = random.random()
    if depth > 3 or kind < 0.35:
        return random.choice(SIGNS)
    inner = draw(random, depth + 1)
    if kind < 0.6:
        return inner + draw(random, depth + 1)
    if kind < 0.72:
        return f"(?:{inner}|{draw(random, depth + 1)})"
    if kind < 0.88:
        return f"({inner}){random.choice(('*', '+', '?', '{2}', '{1,3}', '*?', '{0,}'))}"
    return random.choice(EDGES)


def spend(_steps: int) -> None:
    """Count nothing."""


def test_what_is_found_and_what_is_not_is_as_re2_has_it() -> None:
    random, found, none = Random(7), 0, 0
    search = TextSearch(spend)
    for _ in range(150):
        wanted = {draw(random) for _ in range(random.choice((1, 1, 2)))}
        unwanted = {draw(random) for _ in range(random.choice((0, 1, 2)))}
        ours = [re2.compile(each, options()) for each in sorted(wanted)]
        theirs = [re2.compile(each, options()) for each in sorted(unwanted)]
        fitting = [
            text
            for text in TEXTS
            if all(each.search(text) for each in ours)
            and not any(each.search(text) for each in theirs)
        ]
        text = search.witness(frozenset(wanted), frozenset(unwanted))
        if isinstance(text, str):
            found += 1
            assert all(each.search(text) for each in ours), (wanted, unwanted, text)
            assert not any(each.search(text) for each in theirs), (wanted, unwanted, text)
            assert len(wanted) > 1 or not fitting or len(text) <= len(fitting[0])
        else:
            none += 1
            assert fitting == [], (wanted, unwanted)
            assert text <= unwanted
    assert min(found, none) > 20


@pytest.mark.parametrize(
    ("wanted", "unwanted", "text"),
    [
        ({"(architecture|design review)"}, {"design"}, "architecture"),
        ({r"^\bübung\b"}, set(), None),
        ({r"(?i)straße"}, {"ß"}, "STRAẞE"),
        ({"^abc$"}, {"b"}, None),
        ({"a.{900}b"}, set(), "a" * 901 + "b"),
        ({"(?i)^k$"}, {"[kK]"}, "\u212a"),
        ({r"^\p{Greek}$"}, {r"[^\p{Greek}]"}, "Ͱ"),
        (set(), {"."}, ""),
    ],
)
def test_one_text_for_patterns(wanted: set[str], unwanted: set[str], text: str | None) -> None:
    search = TextSearch(spend)
    found = search.witness(frozenset(wanted), frozenset(unwanted))
    if text is None:
        assert found == unwanted
    else:
        assert isinstance(found, str)
        assert len(found) == len(text)
        assert not search.hits(found, unwanted)
        assert search.hits(found, wanted) == wanted


def test_a_core_is_needed_as_a_whole() -> None:
    search = TextSearch(spend)
    wanted, unwanted = search.core(frozenset({"ab", "x"}), frozenset({"b", "q"}))
    assert (wanted, unwanted) == ({"ab"}, {"b"})


def test_a_pattern_of_bytes_is_refused() -> None:
    with pytest.raises(PolicyTooComplex):
        TextSearch(spend).witness(frozenset({r"\C"}), frozenset())


def test_too_many_steps_end_a_question() -> None:
    solver = Solver(lambda _model: (), most_steps=200)
    search = TextSearch(solver.spend)
    with pytest.raises(PolicyTooComplex):
        search.witness(frozenset({"(a|b)*a(a|b){40}$"}), frozenset({"a(a|b){39}b$", "ba"}))


def test_the_solver_agrees_with_trying_all_values() -> None:
    random = Random(3)
    for _ in range(300):
        many = random.randrange(3, 9)
        clauses = [
            tuple(random.choice((1, -1)) * (2 + random.randrange(many)) for _ in range(3))
            for _ in range(random.randrange(many, 6 * many))
        ]
        solver = Solver(lambda _model: ())
        for _ in range(many):
            solver.choice(prefers=random.random() < 0.5)
        for clause in clauses:
            solver.add(clause)
        for assumed in ((), (2,), (-2, 3)):
            fits = [
                values
                for values in product((1, -1), repeat=many)
                if all(
                    any(values[abs(lit) - 2] * lit > 0 for lit in clause)
                    for clause in (*clauses, *((each,) for each in assumed))
                )
            ]
            model = solver.solve(assumed)
            assert (model is not None) == bool(fits)
            if model is not None:
                assert tuple(model[2 : 2 + many]) in fits
