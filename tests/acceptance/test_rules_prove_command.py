"""`rules prove`: claims about a realistic policy, and faults that are planted in it."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.rules_home import Home

from pointsman.cli.rules import rules
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.policy import read_policy, turn_policy
from pointsman.turns.proofs.claims import Claim, ClaimedDecision, Prover
from pointsman.turns.registry.models import read_models, registry

FOLDER = Path(__file__).parent / "proved_policy"
MODELS, ROUTING, CLAIMS = (
    (FOLDER / f"{name}.yaml").read_text() for name in ("models", "routing", "claims")
)
FAULTS: list[Any] = parse_yaml((FOLDER / "faults.yaml").read_bytes(), "faults.yaml").value  # type: ignore[assignment] # a list of mappings


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.write("models.yaml", MODELS)
    made.write("routing.yaml", ROUTING)
    made.write("claims.yaml", CLAIMS)
    return made


def names(output: str, verdict: str) -> list[str]:
    return re.findall(rf"^{verdict} +(.*)", output, re.MULTILINE)


def prove(home: Home, *words: str) -> Any:
    return home.run(rules, "prove", *words)


def test_all_claims_hold_of_the_policy_they_were_written_for(home: Home) -> None:
    done = prove(home, str(home.path / "claims.yaml"))
    assert done.exit_code == 0, done.output
    assert names(done.stdout, "REFUTED") == []
    assert len(names(done.stdout, "holds")) == CLAIMS.count("note:")


def test_forty_faults_are_planted() -> None:
    assert len({(each["old"], each["new"]) for each in FAULTS}) == len(FAULTS) >= 40
    assert all(each["old"] in MODELS or each["old"] in ROUTING for each in FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["breaks"])
def test_a_planted_fault_is_found_and_its_example_replays(home: Home, fault: Any) -> None:
    old, new, note = fault["old"], fault["new"], fault["breaks"]
    home.write("models.yaml", MODELS.replace(old, new, 1))
    home.write("routing.yaml", ROUTING.replace(old, new, 1))
    (claim,) = re.findall(rf"- (?:note: {note}\n(?:  .*\n)*|{{note: {note},.*\n)", CLAIMS)
    (found,) = home.json(rules, "prove", str(home.write("one.yaml", claim)))["claims"]
    assert not found["holds"]
    if not note.startswith("fires"):
        tested = home.run(rules, "test", str(home.write("found.yaml", found["case"])))
        assert tested.stdout == "1 of 1 case passed\n", tested.output


def test_without_claims_privacy_and_every_rule_are_asked_about(home: Home) -> None:
    done = prove(home)
    assert done.exit_code == 0
    assert len(names(done.stdout, "holds")) == 1 + ROUTING.count("name:")


def test_a_rule_that_never_fires_is_told(home: Home) -> None:
    home.write("routing.yaml", ROUTING.replace("when: {has_images: true}", "when: {}"))
    same_model = ["rule long context can fire", "rule architecture can fire"]
    assert names(prove(home).stdout, "REFUTED") == same_model
    home.write("routing.yaml", ROUTING.replace("estimated_input_tokens_gt: 100000",
                                               "estimated_input_tokens_gt: 200000"))  # fmt: skip
    assert names(prove(home).stdout, "REFUTED") == ["rule long context can fire"]


def test_a_claim_may_stand_on_the_command_line(home: Home) -> None:
    claim = "{when: {message_matches: '^(hi|hello)$'}, never: {model: acme:large}}"
    found = home.json(rules, "prove", "--claim", claim)
    assert found["refuted"] == 1
    assert found["claims"][0]["says"] == "never model acme:large: message_matches ^(hi|hello)$"
    assert '"want"' not in found["claims"][0]["case"]
    assert "acme:large" in found["claims"][0]["case"]


def test_a_claim_about_no_turn_holds_and_says_so(home: Home) -> None:
    claim = "{when: {message_matches: '^a$', message_contains_any: b}, never: {location: cloud}}"
    done = prove(home, "--claim", claim)
    assert done.exit_code == 0
    assert "there is no such turn" in done.stdout


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("{never: {}}", "could not fail"),
        ("{when: {}}", "one of `never`, `always` and `some`"),
        ("{never: {model: acme:lagre}}", "did you mean `acme:large`?"),
        ("{when: {any_up: [nil]}, never: {no_model: true}}", "`nil` is not a model"),
        ("{some: {rule: quick}}", "`quick` is not a rule"),
        ("{when: {message_matches: '('}, some: {location: cloud}}", "is refused"),
    ],
)
def test_a_claim_that_means_nothing_is_refused(home: Home, claim: str, words: str) -> None:
    done = prove(home, "--claim", claim)
    assert done.exit_code == 2
    assert words in done.output


def test_a_broken_policy_is_not_proved_by_what_stands_in_for_it(home: Home) -> None:
    home.write("routing.yaml", "schema_version: 1\nrules: [{when: {}, use: acme:none}]")
    done = prove(home)
    assert done.exit_code == 2
    assert "`acme:none` is not a model" in done.output


def large_policy(many: int) -> CompiledTurnPolicy:
    """Make a policy of many rules, every kind of condition among them."""
    kinds = (
        "message_matches: 'topic {n}\\b'",
        "message_contains_any: [word{n}, other{n}]",
        "estimated_input_tokens_gt: {n}00, has_images: true",
        "skills_matching_message_includes: skill{n}, not: {{has_tool_calls_in_history: true}}",
        "any_of: [{{message_matches: '(?i)^(please)?{n}'}}, {{file_extensions_in_context: .x{n}}}]",
    )
    models_used = ("acme:small", "acme:large", "own:coder")
    lines = (
        f"  - {{name: rule {n}, when: {{{kinds[n % 5].format(n=n)}}}, use: {models_used[n % 3]}}}"
        for n in range(many)
    )
    routing = "\n".join(("schema_version: 1", "global_default: acme:small", "rules:", *lines))
    models = registry(read_models(MODELS.encode(), "models.yaml"), lambda _name: None)
    return compile_policy(
        turn_policy(read_policy(routing.encode(), "routing.yaml", models, "/h"), models, "/h")
    )


def test_two_hundred_rules_take_bounded_work() -> None:
    def steps(many: int) -> int:
        prover = Prover(large_policy(many))
        answers = [
            prover.answer(Claim(some=ClaimedDecision(rule=f"rule {n}"))) for n in range(0, many, 5)
        ]
        assert all(each.holds for each in answers)
        return sum(each.steps for each in answers) // len(answers)

    small, large = steps(50), steps(200)
    # A rule is asked about in steps that grow as the rules before it, not as their pairs.
    assert large < 6 * small
    assert large < 400_000


def test_each_model_of_a_split_is_reached_by_some_session(home: Home) -> None:
    split = "split: {acme:small: 95, acme:large: 5}\n    by: session"
    at = ROUTING.index("use: acme:small")
    home.write("routing.yaml", ROUTING[:at] + split + ROUTING[at + len("use: acme:small") :])
    claim = "{never: {rule: quick fixes, model: acme:large}}"
    (found,) = home.json(rules, "prove", "--claim", claim)["claims"]
    assert not found["holds"]
    assert '"split_units": {"session": "session-' in found["case"]
