"""Claims about policies with splits: every model of a split is some turn's, and only those."""

from decimal import Decimal

import pytest

from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.facts import SplitUnits
from pointsman.turns.policy import GivenRule, RoutingFile, turn_policy
from pointsman.turns.proofs.claims import Claim, ClaimedDecision, Prover
from pointsman.turns.registry.models import Model, read_models, registry
from pointsman.turns.rules.condition import When
from pointsman.turns.rules.split import RuleSplit, SplitTarget, Splitter, share_starts

MODELS: dict[str, Model] = registry(
    read_models(
        b"schema_version: 1\nproviders: {a: {kind: openai}}\nmodels:"
        b" {'a:one': {location: cloud}, 'a:two': {location: cloud}, 'a:three': {location: cloud}}",
        "models.yaml",
    ),
    lambda _name: None,
)


def policy(*rules: GivenRule) -> CompiledTurnPolicy:
    routing = RoutingFile(schema_version=1, rules=rules, global_default="a:three")
    return compile_policy(turn_policy(routing, MODELS, "/"))


CANARY = GivenRule(When(), split={"a:one": 97, "a:two": 3, "a:three": 0}, name="canary")
THIRDS = GivenRule(When(), split={"a:two": 2, "a:one": 1}, name="thirds")


@pytest.mark.parametrize(
    ("model", "is_reached"), [("a:one", True), ("a:two", True), ("a:three", False)]
)
def test_a_claim_finds_a_session_for_each_model_of_a_split(model: str, is_reached: bool) -> None:
    decided = ClaimedDecision(model=model, rule="canary")
    answer = Prover(policy(CANARY)).answer(Claim(some=decided))
    assert answer.holds is is_reached
    if is_reached:
        assert answer.example is not None
        assert answer.example.winner is not None
        assert answer.example.winner.model == model


def test_the_shares_are_the_slots_number_by_number() -> None:
    split = RuleSplit(
        "session", tuple(SplitTarget(n, w) for n, w in (("x", 3), ("y", 0), ("z", 7)))
    )
    shares = share_starts(split)
    assert [name for name, _, _ in shares] == ["x", "z"]
    assert (shares[0][1], shares[-1][2]) == (0, 2**64 - 1)
    assert shares[0][2] + 1 == shares[1][1]
    drawn = [Splitter("r", split).draw(SplitUnits(session=f"s{n}"))[0] for n in range(500)]
    assert Decimal(drawn.count("x")) / 500 == pytest.approx(Decimal("0.3"), abs=Decimal("0.07"))
