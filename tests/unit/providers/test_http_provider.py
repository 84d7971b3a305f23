"""One call: what goes on the wire, with which key, and what is told when it fails."""

import asyncio
import pickle
import traceback

import pytest
from tests.unit.providers.calling import Sleeps, outgoing, provider, run

from pointsman.errors import InputError
from pointsman.providers.http.provider import ProviderEnvironment
from pointsman.providers.port import Deadlines, NotConfigured, UpstreamError
from pointsman.providers.registry.providers import open_providers
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.testing.upstream_faults import FAULTS
from pointsman.testing.upstream_replies import SendBytes, does, fails, plain, says
from pointsman.turns.registry.models import ModelsFile, ProviderKey, read_models
from pointsman.turns.registry.models import Provider as Configured

CANARY = "sk-canary-0123456789abcdef"
PATIENT = Deadlines()
KEYS = (ProviderKey(env="KEY_A"), ProviderKey(env="KEY_B"))


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    monkeypatch.setenv("KEY_A", CANARY + "-a")
    monkeypatch.setenv("KEY_B", CANARY + "-b")


def called(*replies, dialect="chat", headers=(), calls=1, otherwise=None, **configured):
    """Make calls; give the upstream, the last answer or error, and the pauses that were made."""
    sleeps = Sleeps()

    async def work():
        result = None
        async with ScriptedUpstream(*replies, otherwise=otherwise) as upstream:
            it = provider(upstream, dialect, sleeps=sleeps, **configured)
            for _ in range(calls):
                try:
                    result = await it.send(outgoing(dialect, headers=headers), PATIENT)
                    await result.read()
                except UpstreamError as error:
                    result = error
            await it.close()
            await upstream.wait_for_disconnects()
        return upstream, result, sleeps

    return run(work)


def keys_of(upstream):
    return [(each.header("authorization") or "")[-1:] for each in upstream.requests]


def everything_shown(error):
    """Give all that a careless log could write about an error, every frame's variables too."""
    found = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(found.format()) + repr(error) + str(error) + repr(vars(error))


# What goes on the wire.


def test_openai_gets_its_key_as_a_bearer():
    upstream, _answer, _ = called(api_key=KEYS[0])
    (request,) = upstream.requests
    assert request.target == "/chat/completions"
    assert request.header("authorization") == f"Bearer {CANARY}-a"
    assert request.header("accept-encoding") == "identity"
    assert request.header("host") == f"127.0.0.1:{request.header('host').rpartition(':')[2]}"
    assert request.body == outgoing().body


def test_anthropic_gets_its_key_and_its_version():
    upstream, _answer, _ = called(dialect="messages", api_key=KEYS[0])
    (request,) = upstream.requests
    assert request.target == "/v1/messages"
    assert request.header("x-api-key") == f"{CANARY}-a"
    assert request.header("authorization") is None
    assert request.header("anthropic-version") == "2023-06-01"


def test_what_a_caller_may_pass_is_passed_and_nothing_else():
    headers = (
        ("Anthropic-Beta", "tools-2026"), ("anthropic-version", "2026-01-01"),
        ("authorization", "Bearer callers"), ("x-api-key", "callers"), ("cookie", "a=b"),
        ("host", "evil"), ("content-length", "1"), ("x-forwarded-for", "1.2.3.4"),
    )  # fmt: skip
    upstream, _answer, _ = called(dialect="messages", headers=headers, api_key=KEYS[0])
    names = dict(upstream.requests[0].headers)
    assert names["anthropic-beta"] == "tools-2026"
    assert names["anthropic-version"] == "2026-01-01"
    assert "callers" not in str(names)
    assert not {"cookie", "x-forwarded-for", "authorization"} & set(names)


def test_a_header_that_would_become_two_is_refused():
    headers = (("openai-beta", "a\r\nx-evil: 1"),)
    upstream, error, _ = called(headers=headers, api_key=KEYS[0])
    assert (error.error_class, upstream.requests) == ("invalid_request", [])
    assert CANARY not in everything_shown(error)


def test_a_header_given_twice_is_passed_as_one():
    headers = (("anthropic-beta", "a"), ("anthropic-beta", "b"))
    upstream, _answer, _ = called(dialect="messages", headers=headers)
    assert upstream.requests[0].header("anthropic-beta") == "a, b"


def test_configured_headers_and_query_are_added():
    upstream = called_with(headers={"X-Team": "blue"}, query={"api-version": "2024 x&y"})
    (request,) = upstream.requests
    assert request.header("x-team") == "blue"
    assert request.target == "/chat/completions?api-version=2024+x%26y"


def called_with(*replies, **configured):
    """Make a call to a provider configured like this."""

    async def work():
        async with ScriptedUpstream(*replies) as upstream:
            it = provider(upstream, **configured)
            answer = await it.send(outgoing(), PATIENT)
            await answer.read()
            await it.close()
            return upstream

    return run(work)


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": "x"}, {"host": "x"}, {"x y": "z"}, {"x": "a\nb"}, {"content-length": "1"}],
)
def test_headers_that_cannot_be_configured_are_refused(headers):
    with pytest.raises(InputError, match="header"):
        provider("http://127.0.0.1:1", headers=headers)


def test_a_base_url_may_end_with_the_version_or_not():
    for suffix in ("", "/v1", "/v1/"):

        async def work(suffix=suffix):
            async with ScriptedUpstream() as upstream:
                it = provider(upstream.base_url + suffix, "messages")
                await (await it.send(outgoing("messages"), PATIENT)).read()
                await it.close()
                return upstream.requests[0].target

        assert run(work) == "/v1/messages"


def test_a_dialect_that_is_not_spoken_is_refused():
    async def work():
        it = provider("http://127.0.0.1:1", "chat")
        with pytest.raises(UpstreamError, match="does not speak `messages`"):
            await it.send(outgoing("messages"), PATIENT)
        await it.close()

    run(work)
    with pytest.raises(InputError, match="cannot speak"):
        open_providers(
            ModelsFile(1, providers={"a": Configured("anthropic")}), None, dialects={"a": ("chat",)}
        )


# Retries and keys.


def test_a_burst_of_errors_ends_in_an_answer():
    upstream, answer, sleeps = called(fails(500), fails(503))
    assert (answer.status, answer.attempts, sleeps) == (200, 3, [1.0, 2.0])
    assert len(upstream.requests) == 3


def test_what_the_provider_asks_for_is_waited():
    _upstream, answer, sleeps = called(FAULTS["rate_limit_date"].reply)
    assert (answer.attempts, sleeps) == (2, [9.0])


def test_there_is_no_waiting_past_the_end_of_the_call():
    upstream, error, sleeps = called(fails(429, headers={"retry-after": "50"}), timeout_s=10)
    assert (error.error_class, error.attempts, sleeps) == ("rate_limit", 1, [])
    assert error.retry_after_s == 50.0
    assert len(upstream.requests) == 1


def test_a_key_that_fails_is_followed_by_the_next_which_is_kept():
    upstream, answer, sleeps = called(FAULTS["unauthorized"].reply, api_key=KEYS, calls=2)
    assert keys_of(upstream) == ["a", "b", "b"]
    assert sleeps == []
    assert answer.attempts == 1
    assert len(answer.credential) == 8


def test_each_key_has_its_own_id():
    _upstream, one, _ = called(api_key=KEYS[0])
    _upstream, other, _ = called(FAULTS["unauthorized"].reply, api_key=KEYS)
    assert one.credential != other.credential
    _upstream, error, _ = called(otherwise=fails(401), api_key=KEYS[0])
    assert error.credential == one.credential


def test_a_key_that_is_not_there_is_passed_over(monkeypatch):
    monkeypatch.delenv("KEY_A")
    upstream, answer, _ = called(api_key=KEYS)
    assert (answer.status, keys_of(upstream)) == (200, ["b"])


def test_without_any_key_nothing_is_sent(monkeypatch):
    monkeypatch.delenv("KEY_A")
    upstream, error, _ = called(api_key=KEYS[0])
    assert isinstance(error, NotConfigured)
    assert (error.error_class, upstream.requests) == ("auth", [])


def test_a_key_that_is_no_key_is_not_shown_either(monkeypatch):
    monkeypatch.setenv("KEY_A", CANARY + "\x01")
    _upstream, error, _ = called(api_key=KEYS[0])
    assert isinstance(error, NotConfigured)
    assert CANARY not in everything_shown(error)


def test_a_refused_connection_is_a_network_error_tried_three_times():
    sleeps = Sleeps()

    async def work():
        async with ScriptedUpstream(listens=False) as upstream:
            it = provider(upstream, sleeps=sleeps)
            with pytest.raises(UpstreamError, match="refused") as caught:
                await it.send(outgoing(), PATIENT)
            await it.close()
            return caught.value

    error = run(work)
    assert (error.error_class, error.attempts, sleeps) == ("network", 3, [1.0, 2.0])


def test_a_cancelled_pause_ends_the_call():
    async def work():
        async with ScriptedUpstream(otherwise=fails(500)) as upstream:
            it = provider(upstream, sleeps=asyncio.sleep)
            task = asyncio.ensure_future(it.send(outgoing(), PATIENT))
            while not upstream.requests:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await it.close()
            return len(upstream.requests)

    assert run(work) == 1


def test_an_error_whose_body_never_ends_is_told_by_its_status(monkeypatch):
    monkeypatch.setattr("pointsman.providers.http.provider._ERROR_BODY_S", 0.05)
    cut = plain(b"x" * 50, 400)[:-20]
    _upstream, error, _ = called(does(SendBytes(cut), FAULTS["accept_then_silence"].reply(None)[0]))
    assert (error.error_class, error.status) == ("invalid_request", 400)


# Secrets.


@pytest.mark.parametrize("name", FAULTS)
def test_no_error_shows_a_key(name, monkeypatch):
    async def work():
        async with ScriptedUpstream(otherwise=FAULTS[name].reply) as upstream:
            it = provider(upstream, api_key=KEYS)
            try:
                answer = await it.send(outgoing(), Deadlines(head_s=0.05, idle_s=0.05, total_s=0.1))
                await answer.read()
            except UpstreamError as error:
                return error
            finally:
                await it.close()
                await upstream.wait_for_disconnects()

    error = run(work)
    if error is None:
        return
    assert CANARY not in everything_shown(error)
    assert CANARY.encode() not in pickle.dumps(error)


def test_a_key_that_the_provider_repeats_is_taken_out():
    reply = fails(401, "authentication_error", f"Incorrect API key provided: {CANARY}-a")
    _upstream, error, _ = called(otherwise=reply, api_key=KEYS[0])
    assert b"[redacted]" in error.body
    assert CANARY.encode() not in error.body


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_take_no_key_anywhere(status):
    async def work():
        async with ScriptedUpstream() as other:
            moved = does(SendBytes(plain(b"", status, {"location": other.base_url + "/v1"})))
            async with ScriptedUpstream(otherwise=moved) as upstream:
                it = provider(upstream, api_key=KEYS[0])
                with pytest.raises(UpstreamError, match="redirects are not followed") as caught:
                    await it.send(outgoing(), PATIENT)
                await it.close()
            return caught.value.error_class, other.connections_made

    assert run(work) == ("other", 0)


def test_an_error_survives_a_pickle():
    _upstream, error, _ = called(fails(404, code="model_not_found"), api_key=KEYS[0])
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.message, copy.error_class, copy.status) == (error.message, "invalid_request", 404)


# The providers of a home.

MODELS = b"""
schema_version: 1
providers:
  openai: {kind: openai, api_key: {env: KEY_A}}
  claude: {kind: anthropic, api_key: {env: KEY_A}}
  here: {kind: ollama}
  vllm: {kind: openai, base_url: "http://127.0.0.1:8000/v1"}
models:
  openai:gpt-5: {location: cloud}
  here:llama3.2:1b: {location: local}
"""


def test_providers_are_opened_from_the_models_file(tmp_path):
    providers = open_providers(read_models(MODELS, "models.yaml"), tmp_path)
    assert [*providers] == ["openai", "claude", "here", "vllm"]
    dialects = {name: providers.by_name(name).dialects for name in providers}
    assert dialects == {
        "openai": ("responses", "chat"),
        "claude": ("messages",),
        "here": ("chat",),
        "vllm": ("chat",),
    }
    provider_, name = providers.of("here/llama3.2:1b")
    assert (provider_.name, name) == ("here", "llama3.2:1b")
    with pytest.raises(NotConfigured, match="no provider `nobody`"):
        providers.of("nobody:x")
    run(providers.close)


def test_an_embedded_provider_stands_beside_the_others(tmp_path):
    embedded = provider("http://127.0.0.1:1")
    models = ModelsFile(1, providers={"tiny": Configured("embedded")})
    providers = open_providers(models, tmp_path, embedded=embedded)
    assert providers.of("embedded:smollm2-135m") == (embedded, "smollm2-135m")
    assert providers.by_name("tiny") is embedded
    assert [*open_providers(models, tmp_path)] == []


def test_a_bad_address_is_told_with_its_place(tmp_path):
    models = ModelsFile(1, providers={"x": Configured("openai", base_url="ftp://x")})
    with pytest.raises(InputError, match="base_url") as caught:
        open_providers(models, tmp_path)
    assert caught.value.where == "models.yaml: providers.x"


def test_a_provider_by_name_may_be_inside_only_when_it_is_allowed(tmp_path):
    async def work():
        async with ScriptedUpstream(says("x")) as upstream:
            configured = Configured("openai", base_url=f"http://localtest.me:{upstream.port}")
            models = ModelsFile(1, providers={"x": configured})

            async def inside(_host, _port):
                return ["127.0.0.1"]

            surroundings = ProviderEnvironment(resolve=inside)
            closed = open_providers(models, tmp_path, surroundings=surroundings)
            with pytest.raises(UpstreamError, match="private address"):
                await closed.by_name("x").send(outgoing(), PATIENT)
            allowed = frozenset({"x"})
            opened = open_providers(
                models, tmp_path, surroundings=surroundings, allow_private=allowed
            )
            answer = await opened.by_name("x").send(outgoing(), PATIENT)
            await answer.read()
            await closed.close()
            await opened.close()
            return answer.status

    assert run(work) == 200
