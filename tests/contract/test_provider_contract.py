"""Every fault of a provider over HTTP has one defined outcome, and nothing is left behind."""

import asyncio

import pytest
from tests.unit.providers.calling import SOON, outgoing, provider, run

from pointsman.providers.port import Deadlines, Dialect, UpstreamError
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.testing.upstream_faults import FAULTS

NETWORK, SERVER, TIMEOUT = (
    ("send", "network", 3),
    ("send", "server_error", 3),
    ("send", "timeout", 1),
)
LIMITED, AUTH, OTHER = ("send", "rate_limit", 3), ("send", "auth", 1), ("send", "other", 1)
INVALID, OVERFLOW = ("send", "invalid_request", 1), ("send", "context_overflow", 1)
BROKEN, STALLED, TOO_LONG = ("body", "network", 1), ("body", "timeout", 1), ("body", "other", 1)
ANSWER = ("answer", "", 1)

OUTCOMES = {
    "accept_then_silence": TIMEOUT,
    "reset_before_head": NETWORK,
    "close_before_head": NETWORK,
    "reset_mid_body": BROKEN,
    "close_mid_body": BROKEN,
    "late_head": TIMEOUT,
    "late_first_token": STALLED,
    "stall_mid_body": STALLED,
    "slow_drip": STALLED,
    "status_500": SERVER,
    "status_502": SERVER,
    "status_503": SERVER,
    "status_529": SERVER,
    "rate_limit": LIMITED,
    "rate_limit_seconds": LIMITED,
    "rate_limit_date": LIMITED,
    "rate_limit_negative": LIMITED,
    "rate_limit_huge": LIMITED,
    "rate_limit_garbage": LIMITED,
    "unauthorized": AUTH,
    "forbidden": AUTH,
    "policy_refusal": INVALID,
    "not_found": INVALID,
    "context_length": OVERFLOW,
    "too_large": OVERFLOW,
    "html": OTHER,
    "endless_body": TOO_LONG,
    "huge_body": TOO_LONG,
    "gzip_bomb": OTHER,
    "redirect": OTHER,
    "redirect_to_metadata": OTHER,
    "length_and_chunks": NETWORK,
    "two_lengths": NETWORK,
    "length_too_long": BROKEN,
    "chunk_garbage": BROKEN,
    "interim_flood": NETWORK,
    "huge_head": NETWORK,
    "not_http": NETWORK,
    "acknowledgement_lost": NETWORK,
}
"""What is not named here is an answer: what is wrong with it stands in its body."""

DIALECTS: tuple[Dialect, ...] = ("chat", "messages", "responses")


def _deadlines(name):
    """Give short ones only where they are the outcome, so that a busy machine changes nothing."""
    if name == "slow_drip":
        return Deadlines(total_s=0.5)  # it is slow only as a whole
    return SOON if OUTCOMES.get(name) in (TIMEOUT, STALLED) else Deadlines()


async def _of(it, deadlines, dialect="chat", *, is_stream=True):
    """Make one call and take the whole answer; tell where it failed, how, and after how many."""
    place = "send"
    try:
        answer = await it.send(outgoing(dialect, is_stream=is_stream), deadlines)
        place = "body"
        if is_stream:
            _pieces = [piece async for piece in answer]
        else:
            await answer.read()
    except UpstreamError as error:
        return place, error.error_class, error.attempts
    return "answer", "", answer.attempts


async def _outcome(upstream, dialect, deadlines, *, is_stream):
    it = provider(upstream, dialect)
    try:
        return await _of(it, deadlines, dialect, is_stream=is_stream)
    finally:
        await it.close()
        await upstream.wait_for_disconnects()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_a_defined_outcome_and_leaves_nothing_behind(name, is_stream, loop):
    async def work():
        deadlines = _deadlines(name)
        async with ScriptedUpstream(otherwise=FAULTS[name].reply) as upstream:
            for dialect in DIALECTS:
                outcome = await _outcome(upstream, dialect, deadlines, is_stream=is_stream)
                assert outcome == OUTCOMES.get(name, ANSWER), dialect

    run(work, loop)


@pytest.mark.parametrize("name", FAULTS)
def test_twenty_at_once_have_the_same_outcome(name):
    async def work():
        deadlines = _deadlines(name)
        async with ScriptedUpstream(otherwise=FAULTS[name].reply) as upstream:
            it = provider(upstream)
            outcomes = await asyncio.gather(*(_of(it, deadlines) for _ in range(20)))
            await it.close()
            await upstream.wait_for_disconnects()
            return outcomes

    assert run(work, "uvloop") == [OUTCOMES.get(name, ANSWER)] * 20
