"""Properties of the choice of an agent: what may not matter, and what always holds."""

import random
from typing import Any

import msgspec
import pytest
from tests.models.agents_jobs import a_job, a_router
from tests.property.test_agents_against_model import Draw

from pointsman.agents.decide import decide
from pointsman.agents.trace import OUTCOME_FORM, TRACE_FORM
from pointsman.kernel.number import SCALE

HOUSES = 120


def _shuffled(things: Any, chance: random.Random) -> list[Any]:
    found = list(things)
    chance.shuffle(found)
    return found


@pytest.mark.req(1, 2, 3)
def test_no_order_in_which_anything_is_given_matters() -> None:
    for seed in range(HOUSES):
        draw, chance = Draw(seed), random.Random(seed)
        house = draw.house()
        turned = {
            **house,
            "modules": dict(_shuffled(house["modules"].items(), chance)),
            "edges": _shuffled(house["edges"], chance),
        }
        for module in turned["modules"].values():
            module["capabilities"] = _shuffled(module["capabilities"], chance)
        one, other = a_router(house), a_router(turned)
        assert one.selfrep_id == other.selfrep_id
        for _ in range(3):
            job, mind = draw.job(list(house["modules"])), draw.mind()
            listed = _shuffled(job.get("candidate_list", ()), chance)
            again = job | ({"candidate_list": listed * 2} if listed else {})
            goals = mind | {"goals": _shuffled(mind["goals"], chance)}
            first, second = a_job(one, job, mind), a_job(other, again, goals)
            found = decide(one, first)
            assert found == decide(other, second)
            # What a caller put in himself, in an order of his own, decides the same as well.
            raw = msgspec.structs.replace(first, candidate_list=tuple(listed))
            assert found == decide(one, raw)


@pytest.mark.req(12, 13, 14, 18, 26, 30, 35, 67)
def test_what_is_promised_holds_for_every_job() -> None:
    for seed in range(1_000, 1_000 + HOUSES):
        draw = Draw(seed)
        house = draw.house()
        router = a_router(house)
        config = router.policy.config
        for _ in range(5):
            facts = a_job(router, draw.job(list(house["modules"])), draw.mind())
            outcome, trace = decide(router, facts)
            rows, mind = outcome.ordered_candidates, facts.mind
            assert 0 <= outcome.depth <= mind.max_depth_allowed
            assert 0 <= outcome.token_budget <= mind.token_budget
            assert all(0 <= row.final_score <= SCALE for row in rows)
            assert list(rows) == sorted(rows, key=lambda row: -row.final_score)
            assert len(rows) <= config.top_n + 1
            assert [row.node_id for row in rows] == [row.node_id for row in trace.scored]
            assert {row.node_id for row in rows}.isdisjoint(each.node_id for each in trace.excluded)
            assert all(router.rows[row.node_id].status in {"healthy", "degraded"} for row in rows)
            if outcome.selected_agent is None:
                assert outcome.error_code
                assert (outcome.depth, outcome.token_budget) == (0, 0)
            elif outcome.reason_tag != "fallback_generic":
                assert rows[0].node_id == outcome.selected_agent
                assert rows[0].final_score >= config.min_score
                assert outcome.token_budget >= min(config.min_token_floor, mind.token_budget)
            assert OUTCOME_FORM.decode(OUTCOME_FORM.encode(outcome)) == outcome
            assert TRACE_FORM.decode(TRACE_FORM.encode(trace)) == trace
