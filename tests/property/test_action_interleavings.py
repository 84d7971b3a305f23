"""Votes, expiries, executions and cancellations in any order: never without a quorum, never twice.

Two worlds. In one nothing holds actors apart: each reads, thinks and writes whenever a schedule
lets it, so that even a broken lock must not let anything through. In the other, two real services
with chains of their own work on one real ledger, and some of their executors die.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from tests.unit.governance.chamber import ANN, COUNCIL, NOTE, ROOT, a_request, in_memory

from pointsman.app import Pointsman
from pointsman.approvals.approvals import Approvals
from pointsman.approvals.effects import Effect, Effects
from pointsman.approvals.proposal import ActionProposal
from pointsman.approvals.record import ActionRecord, read_action
from pointsman.errors import ActionRefused
from pointsman.governance.action import VOTE_WINDOW, ActionRequest, Actor
from pointsman.governance.state import (
    ActionEvent,
    ActionState,
    ActionStep,
    StepKind,
    fold_action,
    refusal,
)
from pointsman.governance.votes import Choice
from pointsman.kernel.document import Json
from pointsman.kernel.instant import Instant
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.semantic import SemanticMemory
from pointsman.testing import CountedIds, FrozenClock

SOMETIMES = {
    "executed", "expired", "cancelled", "rejected", "pending", "disputed", "void", "died", "raced",
    "withdrawn",
}  # fmt: skip
"""What must happen now and then, or the schedules try nothing."""

SOMETIMES_REAL = {"executed", "expired", "cancelled", "rejected", "executing", "refused"}

# Whoever is not of the council, asked for it, or votes under a second key of one name.
IMPOSTORS = (
    replace(ANN, role="council"),
    ROOT,
    Actor("another key", COUNCIL[0].name, "council"),
    Actor("key-v", "vic", "viewer"),
)


class Died(BaseException):
    """An executor that is no more."""


class World:
    """One request, everybody's events, and every effect that happened."""

    def __init__(self, rng: random.Random, request: ActionRequest, *, is_held: bool) -> None:
        self.rng = rng
        self.request = request
        self.is_held = is_held
        self.now = request.created_at
        self.events: list[ActionEvent] = []
        self.effects: list[tuple[Instant, list[ActionEvent]]] = []
        self.seen: Counter[str] = Counter()

    def state(self) -> ActionState:
        # Nobody may count on the order in which entries are found.
        events = self.events.copy()
        self.rng.shuffle(events)
        return fold_action(self.request, events)


class Tried(Struct, frozen=True):
    """What an actor sets out to write."""

    kind: StepKind
    by: Actor
    choice: Choice | None = None
    claim: str = ""
    action_hash: str = ""
    is_blind: bool = False


def written(world: World, tried: Tried) -> Iterator[None]:
    """Read, think, write; others may act in between, unless this world has a lock."""
    state = world.state()
    named = tried.action_hash or world.request.action_hash
    step = ActionStep("r-1", state.events + 1, tried.by, named, tried.choice, tried.claim, "")
    event = ActionEvent(tried.kind, f"e-{world.rng.random()}", world.now, step)
    if not world.is_held:
        yield
    # Some write without asking whether they may.
    if tried.is_blind or (state.status != "disputed" and refusal(state, event) is None):
        world.events.append(replace(event, at=world.now))


def voter(world: World, by: Actor, choice: Choice, action_hash: str = "") -> Iterator[None]:
    is_blind = world.rng.random() < 0.2
    yield from written(world, Tried("voted", by, choice, "", action_hash, is_blind))
    yield
    yield from clerk(world)


def clerk(world: World) -> Iterator[None]:
    for kind in ("approved", "rejected", "expired"):
        yield from written(world, Tried(kind, ROOT))
        yield


def revoker(world: World) -> Iterator[None]:
    """Somebody whose key is revoked, at any time and more than once."""
    key_id, is_blind = world.rng.choice(COUNCIL).id, world.rng.random() < 0.2
    yield from written(world, Tried("withdrawn", ROOT, claim=key_id, is_blind=is_blind))


def canceller(world: World, by: Actor) -> Iterator[None]:
    yield from written(world, Tried("cancelled", by, is_blind=world.rng.random() < 0.2))


def executor(world: World, claim: str) -> Iterator[None]:
    for _ in range(world.rng.randrange(1, 12)):
        yield
    yield from written(
        world, Tried("claimed", ROOT, claim=claim, is_blind=world.rng.random() < 0.2)
    )
    # INVARIANT under test: only who finds his own claim let in goes on.
    state = world.state()
    if (state.status, state.claim) != ("executing", claim):
        if state.claim and state.claim != claim:
            world.seen["raced"] += 1
        return
    if world.rng.random() < 0.15:
        world.seen["died"] += 1
        return
    world.effects.append((state.claimed_at or world.now, world.events.copy()))
    if not world.is_held:
        yield
    yield from written(world, Tried("executed", ROOT, claim=claim))


def clock(world: World) -> Iterator[None]:
    for _ in range(world.rng.randrange(6)):
        yield
        world.now = Instant(world.now + world.rng.choice([1, VOTE_WINDOW // 3, VOTE_WINDOW]))


def actors(world: World) -> list[Iterator[None]]:
    rng = world.rng
    choices: list[Choice] = ["approve", "approve", "approve", "approve", "reject", "abstain"]
    voters = [voter(world, by, rng.choice(choices)) for by in rng.sample(COUNCIL, rng.randrange(6))]
    voters += [voter(world, by, "approve") for by in rng.sample(IMPOSTORS, rng.randrange(3))]
    if rng.random() < 0.3:
        voters.append(voter(world, rng.choice(COUNCIL), "approve", "sha256:" + "f" * 64))
    executors = [executor(world, f"claim-{n}") for n in range(rng.randrange(1, 5))]
    cancellers = [canceller(world, rng.choice((ANN, ROOT, COUNCIL[0])))] * (rng.random() < 0.2)
    clocks = [clock(world)] * (rng.random() < 0.4)
    revokers = [revoker(world) for _ in range(rng.randrange(4))] * (rng.random() < 0.4)
    return [*voters, *executors, *cancellers, *clocks, *revokers, clerk(world)]


def interleaved(seed: int) -> tuple[Counter[str], list[str]]:
    """Run one schedule; tell what occurred and what must not have."""
    rng = random.Random(seed)
    request = a_request(requester=rng.choice((ANN, COUNCIL[4])))
    world = World(rng, request, is_held=rng.random() < 0.7)
    waiting = actors(world)
    while waiting:
        next_ = rng.choice(waiting)
        if next(next_, StopIteration) is StopIteration:
            waiting.remove(next_)
    state = world.state()
    world.seen[state.status_at(world.now)] += 1
    world.seen["void"] += bool(state.void)
    world.seen["withdrawn"] += bool(state.withdrawn)
    return world.seen, [f"seed {seed}: {each}" for each in broken(world)]


def broken(world: World) -> Iterator[str]:
    """Say what is wrong, by a count that shares nothing with the fold."""
    if len(world.effects) > 1:
        yield f"carried out {len(world.effects)} times"
    for at, events in world.effects:
        if at >= world.request.expires_at:
            yield "carried out after its time"
        if not quorum(world.request, events):
            yield "carried out without a quorum"
        cancelled = [e for e in events if e.kind == "cancelled" and e.step.by in (ANN, ROOT)]
        claimed = next(n for n, e in enumerate(events) if e.kind == "claimed")
        if any(events.index(each) < claimed for each in cancelled if is_allowed(world, each)):
            yield "carried out although it was cancelled"


def is_allowed(world: World, event: ActionEvent) -> bool:
    return event.step.by == ROOT or event.step.by.id == world.request.requester.id


def quorum(request: ActionRequest, events: list[ActionEvent]) -> bool:
    """Count by hand: distinct members but the requester, in time, for this very action.

    A key that is withdrawn before there are three takes its vote along.
    """
    names: dict[str, tuple[str, str]] = {}
    for each in sorted(events, key=lambda event: event.step.number):
        by, step = each.step.by, each.step
        if sum(choice != "abstain" for choice, _ in names.values()) == 3:
            break
        if each.kind == "withdrawn" and step.action_hash == request.action_hash:
            names = {name: vote for name, vote in names.items() if vote[1] != step.claim}
        counts = (
            each.kind == "voted"
            and by.role == "council"
            and by.id != request.requester.id
            and by.name != request.requester.name
            and step.action_hash == request.action_hash
            and each.at < request.expires_at
        )
        if counts and step.choice is not None:
            names.setdefault(by.name, (step.choice, by.id))
    decisive = [choice for choice, _ in names.values() if choice != "abstain"]
    return len(decisive) == 3 and decisive.count("approve") > decisive.count("reject")


def lived(path: Path, seed: int, requests: int) -> tuple[Counter[str], list[str]]:
    """Let two services loose on one real home; tell what occurred and what must not have."""
    rng = random.Random(seed)
    clock_, seen, wrong = FrozenClock(), Counter[str](), []
    carry_out = Effects.carry_out

    def mortal(self: Effects, name: str, claim: str) -> Effect:
        fate = rng.random()
        if fate < 0.1:
            raise Died
        done = carry_out(self, name, claim)
        if fate < 0.2:
            raise Died
        return done

    with (
        Pointsman(path, clock=clock_, ids=CountedIds("one")) as one,
        Pointsman(path, clock=clock_, ids=CountedIds("two")) as two,
    ):
        Effects.carry_out = mortal  # type: ignore[method-assign]
        try:
            for number in range(requests):
                payload: Json = {**NOTE, "value": number}  # type: ignore[dict-item]
                state = one.approvals.request(ActionProposal("sem_write", payload), ANN)
                _buffet(rng, (one, two), clock_, state, seen)
        finally:
            Effects.carry_out = carry_out  # type: ignore[method-assign]
        wrong += _wrong_in(path, one, seen)
    return seen, [f"seed {seed}: {each}" for each in wrong]


def _buffet(
    rng: random.Random,
    services: tuple[Pointsman, Pointsman],
    clock_: FrozenClock,
    state: ActionState,
    seen: Counter[str],
) -> None:
    """Do to one request whatever comes to mind, through whichever service."""
    for _ in range(rng.randrange(3, 14)):
        approvals = rng.choice(services).approvals
        try:
            _something(rng, approvals, clock_, state.request)
        except ActionRefused:
            seen["refused"] += 1
        except Died:
            seen["died"] += 1
            how: Literal["again", "off"] = "off" if rng.random() < 0.2 else "again"
            with suppress(ActionRefused, Died):
                if rng.random() < 0.5:
                    approvals.settle(state.request.request_id, ROOT, how)


def _something(
    rng: random.Random, approvals: Approvals, clock_: FrozenClock, request: ActionRequest
) -> None:
    name, hash_ = request.request_id, request.action_hash
    by = rng.choice((*COUNCIL, *COUNCIL, *COUNCIL, *IMPOSTORS))
    choice: Choice = rng.choice(["approve", "approve", "approve", "reject", "abstain"])
    match rng.choice(["vote"] * 8 + ["execute", "expire", "cancel", "wait", "forged"]):
        case "vote":
            approvals.vote(name, choice, hash_, by)
        case "forged":
            approvals.vote(name, "approve", "sha256:" + "f" * 64, by)
        case "execute":
            approvals.execute(name, ROOT)
        case "expire":
            approvals.expire()
        case "cancel":
            approvals.cancel(name, by if rng.random() < 0.7 else ANN)
        case "wait":
            clock_.advance(microseconds=rng.choice([1, VOTE_WINDOW // 2, VOTE_WINDOW]))


def _wrong_in(path: Path, pointsman: Pointsman, seen: Counter[str]) -> Iterator[str]:
    with closing(SemanticMemory(path / "semantic.db")) as memory:
        written_ = Counter(each.provenance.request_id for each in memory.every_version())
    with closing(LedgerReader(pointsman.home.database)) as ledger:
        for state in pointsman.approvals.list_since():
            record = read_action(ledger, state.request.request_id)
            seen[state.status] += 1
            yield from _wrong_about(record, written_[state.request.request_id])
    if any(each.fault is not None for each in pointsman.verify().chains):
        yield "the ledger does not verify"


def _wrong_about(record: ActionRecord, count: int) -> Iterator[str]:
    name = record.state.request.request_id
    if record.state.status == "disputed" or record.state.void:
        yield f"{name}: something was recorded that may not be"
    if count > 1:
        yield f"{name}: written {count} times"
    if count and not quorum(record.state.request, [*record.events]):
        yield f"{name}: written without a quorum"
    if count and record.state.status not in {"executed", "executing", "failed"}:
        yield f"{name}: written although {record.state.status}"
    if record.state.status == "executed" and not count:
        yield f"{name}: said to be carried out, and nothing is there"


def test_no_schedule_carries_out_without_a_quorum_or_twice() -> None:
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in range(500):
        occurred, found = interleaved(seed)
        seen += occurred
        wrong += found
    assert wrong == []
    assert SOMETIMES - seen.keys() == set()


def test_no_schedule_over_a_real_ledger_does_either() -> None:
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    for path in in_memory():
        seen, wrong = lived(path / "home", 1, 60)
    assert wrong == []
    assert SOMETIMES_REAL - seen.keys() == set()
