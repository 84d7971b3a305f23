"""Every YAML example of the guide and of the table format is valid, and does what it says."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from pointsman.branches.policy import branch_policy
from pointsman.branches.policy import read_policy as read_decisions
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.operations.rules.cases import read_table, run_table
from pointsman.storage.policies.routing_tables import offer_table
from pointsman.turns.chain.override import split_override
from pointsman.turns.compiled import compile_policy
from pointsman.turns.facts import GivenFacts, TurnFacts, turn_facts
from pointsman.turns.policy import NO_ROUTING, RoutingFile, TurnPolicy, read_policy, turn_policy
from pointsman.turns.proofs.claims import (
    Claim,
    ClaimedDecision,
    ClaimedTurns,
    Prover,
    read_claims,
)
from pointsman.turns.registry.models import NO_MODELS, Model, read_models, registry
from pointsman.turns.rules.condition import When
from pointsman.turns.rules.review import Concern, local_proof, review
from pointsman.turns.trace import Slot

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = DOCS / "guide" / "rules.md"
FORMAT = DOCS / "reference" / "rules-test.md"
CLAIMS = DOCS / "reference" / "rules-claims.md"
FENCE = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    page: str
    line: int
    kind: str
    text: str
    models: dict[str, Model]
    policy: TurnPolicy


def examples(page: Path) -> list[Example]:
    """Give a page's examples, each with the models and the policy that stand last above it."""
    text = page.read_text(encoding="utf-8")
    models = registry(NO_MODELS, lambda _name: None)
    policy = turn_policy(NO_ROUTING, models, "/home/me")
    found, tables = [], {}
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 1
        kind, body = fence[2] or "", fence[3]
        if kind == "models":
            models = registry(read_models(body.encode(), "models.yaml"), lambda _name: None)
        if kind == "decisions":
            decisions = branch_policy([read_decisions(body.encode(), "decisions.yaml")]).decisions
            tables = {each.id: offer_table(each) for each in decisions}
        if kind == "routing":
            routing = read_policy(body.encode(), "routing.yaml", models, "/home/me", tables=tables)
            policy = turn_policy(routing, models, "/home/me", tables)
        found.append(Example(page.name, line, kind, body, models, policy))
    return found


EXAMPLES = [*examples(GUIDE), *examples(FORMAT), *examples(CLAIMS)]


def the(kind: str) -> list[object]:
    return [
        pytest.param(each, id=f"{each.page}:{each.line}") for each in EXAMPLES if each.kind == kind
    ]


def test_every_example_says_what_it_is() -> None:
    assert {each.kind for each in EXAMPLES} == {
        "models", "routing", "decisions", "rules-test", "rules-claims",
    }  # fmt: skip


@pytest.mark.parametrize("example", the("routing"))
def test_a_routing_example_reviews_without_surprise(example: Example) -> None:
    codes = {each.code for each in review(example.policy)}
    is_second_choice = "second choice" in example.text
    assert codes == ({Concern.SHADOWED} if is_second_choice else set())
    assert local_proof(example.policy).holds


@pytest.mark.parametrize("example", the("rules-test"))
def test_a_table_example_passes(example: Example) -> None:
    ready = compile_policy(example.policy)

    def exact(given: GivenFacts) -> TurnFacts:
        return ready.complete(turn_facts(given, *split_override(given.message, ready.aliases)))

    table = read_table(example.text.encode(), example.page)
    failed = [row for row in run_table(table, ready, exact).rows if row.state == "failed"]
    assert failed == []


@pytest.mark.parametrize("example", the("rules-claims"))
def test_a_claim_of_the_pages_holds(example: Example) -> None:
    ready = compile_policy(example.policy)
    prover = Prover(ready)
    document = parse_yaml(example.text.encode(), example.page)
    for claim in read_claims(document, ready):
        assert prover.answer(claim).holds, claim.note


def test_the_page_of_claims_lists_every_key() -> None:
    own = set(ClaimedTurns.__struct_fields__) - set(When.__struct_fields__)
    keys = own | {*Claim.__struct_fields__, *ClaimedDecision.__struct_fields__}
    assert keys <= first_cells(CLAIMS)


def first_cells(page: Path) -> set[str]:
    rows = re.findall(r"^\| (.*?) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}


def test_the_guide_lists_every_predicate_and_every_warning() -> None:
    predicates = {name.removesuffix("_") for name in When.__struct_fields__}
    assert predicates | set(Concern) <= first_cells(GUIDE)


def test_the_guide_shows_every_section_of_routing_yaml() -> None:
    sections = set(RoutingFile.__struct_fields__) - {"trace_deferred"}
    shown = "\n".join(each.text for each in EXAMPLES if each.kind == "routing")
    assert all(re.search(rf"^{name}:", shown, re.MULTILINE) for name in sections)


def test_warnings_mean_in_the_guide_what_they_mean_in_the_code() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert all(f"| `{each}` | {each.meaning} |" in text for each in Concern)


def test_the_format_lists_every_slot() -> None:
    text = FORMAT.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in Slot.__args__)  # type: ignore[attr-defined]
