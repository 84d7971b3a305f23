"""Pictures, sound, ratings and reranking: passed to the named model, decided and recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import openai
import pytest
from tests.gateway.house import (
    Running,
    Upstream,
    keeps,
    model,
    provider,
    running,
    upstream,
    write_home,
)
from tests.gateway.town import ADMIN, event

from pointsman.testing.upstream_replies import (
    LAST_CHUNK,
    Received,
    Reset,
    SendBytes,
    Step,
    chunk,
    fails,
    json_answer,
    says,
    stream_answer,
)

SOUND = b"ID3\x00\xff\xfb sound"
PICTURE = b"\x89PNG\r\n\x1a\n--not-the-boundary\r\n"
IMAGE_USAGE = {"input_tokens": 10, "output_tokens": 1000, "total_tokens": 1010}
SPOKEN = {"type": "tokens", "input_tokens": 40, "output_tokens": 8, "total_tokens": 48}
ANSWERS: dict[str, dict[str, object]] = {
    "images/generations": {"created": 1, "data": [{"b64_json": "aGk="}], "usage": IMAGE_USAGE},
    "images/edits": {"created": 1, "data": [{"b64_json": "aGk="}], "usage": IMAGE_USAGE},
    "audio/transcriptions": {"text": "hello", "usage": SPOKEN},
    "moderations": {"id": "modr-1", "model": "m", "results": [{"flagged": False}]},
    "rerank": {"results": [{"index": 1, "relevance_score": 0.9}], "usage": {"total_tokens": 9}},
}


def sound(kind: str, *pieces: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + b"".join(map(chunk, pieces))


def anything(request: Received) -> Sequence[Step]:
    if request.operation == "audio/speech":
        return [SendBytes(sound("audio/mpeg", SOUND, SOUND) + LAST_CHUNK)]
    if request.is_stream:
        done = {"type": "image_generation.completed", "b64_json": "aGk=", "usage": IMAGE_USAGE}
        return [SendBytes(stream_answer([event(done)]))]
    if b"srt" in request.body:
        return [SendBytes(sound("text/plain", b"1\n00:00 --> 00:01\nhello\n") + LAST_CHUNK)]
    if request.operation:
        return [SendBytes(json_answer(ANSWERS[request.operation]))]
    return says("hello")(request)


@pytest.fixture
def street(tmp_path) -> Iterator[tuple[Running, Upstream]]:
    with upstream(otherwise=anything) as open_:
        models = {
            "schema_version": 1,
            "providers": {"open": provider("openai", open_.url)},
            "models": {
                "open:gpt-image-1": model(aliases=["draw"]),
                "open:whisper": {"location": "cloud"},
                "open:voice": model(),
                "open:words": model(),
            },
        }
        routing = {"schema_version": 1, "global_default": "open:words"}
        placement = keeps("email")
        home = write_home(tmp_path / "home", models=models, routing=routing, placement=placement)
        with running(home) as live:
            yield live, open_


@pytest.fixture
def client(street: tuple[Running, Upstream]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{street[0].url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_the_openai_sdk_draws_speaks_listens_and_rates(
    street: tuple[Running, Upstream], client: openai.OpenAI
) -> None:
    live, upstream_ = street
    drawn = client.images.generate(model="draw", prompt="a signal box", size="1024x1024")
    edited = client.images.edit(model="draw", prompt="more rails", image=("a.png", PICTURE))
    spoken = client.audio.speech.create(model="voice", voice="alloy", input="mind the gap")
    heard = client.audio.transcriptions.create(model="whisper", file=("a.mp3", SOUND))
    rated = client.moderations.create(model="words", input=[{"type": "text", "text": "hello"}])
    ranked = live.post("/v1/rerank", {"model": "words", "query": "q", "documents": ["a", "b"]})
    assert drawn.data
    assert edited.data
    assert drawn.data[0].b64_json == "aGk="
    assert spoken.content == SOUND * 2
    assert heard.text == "hello"
    assert rated.results[0].flagged is False
    assert ranked.json()["results"][0]["index"] == 1
    assert [each.path.removeprefix("/v1/") for each in upstream_.requests] == [
        "images/generations", "images/edits", "audio/speech", "audio/transcriptions",
        "moderations", "rerank",
    ]  # fmt: skip
    edits, speech = upstream_.requests[1:3]
    assert b'name="model"\r\n\r\ngpt-image-1\r\n' in edits.body
    assert PICTURE in edits.body
    assert speech.header("accept") == "*/*"
    assert live.kinds().count("decision.turn") == 6
    ends = live.outcomes(6)
    costs = [each["spent"]["cost_microusd"] for each in ends]
    # 10 + 1000 tokens at a dollar a million; what was not told is the highest it may have been.
    assert costs[:2] == [1010, 1010]
    assert costs[2] > 4000
    assert ends[2]["spent"]["is_estimated"]
    # Nothing is known of the price of this one, and unknown is not free.
    assert costs[3] is None
    assert ends[3]["spent"]["output_tokens"] == 8


def test_streams_and_plain_text_come_under_their_own_type(
    street: tuple[Running, Upstream], client: openai.OpenAI
) -> None:
    live, _upstream = street
    events = [*client.images.generate(model="draw", prompt="rails", stream=True)]
    assert [each.type for each in events] == ["image_generation.completed"]
    titles = client.audio.transcriptions.create(
        model="whisper", file=("a.mp3", SOUND), response_format="srt"
    )
    assert "hello" in str(titles)
    streamed = client.audio.speech.with_raw_response.create(model="voice", voice="a", input="x")
    assert streamed.headers["content-type"] == "audio/mpeg"
    assert streamed.headers["x-pointsman-model"] == "open:voice"
    assert live.outcomes(3)[0]["spent"]["output_tokens"] == 1000


def form(*fields: tuple[str, str], boundary: str = "xx", file: bytes = SOUND) -> bytes:
    lines = [
        f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields
    ]
    lines.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n'
        "Content-Type: audio/mpeg\r\n\r\n".encode()
        + file
    )
    return b"".join([*lines, f"\r\n--{boundary}--\r\n".encode()])


FORM = {"content_type": 'multipart/form-data; boundary="xx"'}
GOOD = form(("model", "whisper"), ("prompt", "names"))


def test_a_form_passes_unchanged_but_for_the_models_name(street: tuple[Running, Upstream]) -> None:
    live, upstream_ = street
    assert live.post("/v1/audio/transcriptions", GOOD, **FORM).status_code == 200
    assert upstream_.requests[0].body == GOOD
    by_id = form(("prompt", "names"), ("model", "open:whisper"))
    assert live.post("/v1/audio/transcriptions", by_id, **FORM).status_code == 200
    assert upstream_.requests[1].body == by_id.replace(b"open:whisper", b"whisper")
    assert upstream_.requests[1].header("content-type") == FORM["content_type"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (GOOD[:-4], "breaks off"),
        (GOOD[:-30], "breaks off"),
        (b"x" + GOOD, "does not begin"),
        (form(("prompt", "names")), "model"),
        (form(("model", "whisper"), ("model", "voice")), "`model` stands twice"),
        (GOOD.replace(b'name="file"', b'name="model"'), "`model` stands twice"),
        (GOOD.replace(b'; name="model"', b""), "no name"),
        (
            GOOD.replace(b"\r\n\r\nnames", b"\r\nContent-Transfer-Encoding: base64\r\n\r\nnames"),
            "packed",
        ),
        (form(("model", "whisper"), ("prompt", "a@example.org")), "this turn stays local"),
        (form(("model", "auto")), "must be named"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_form_that_cannot_be_passed_on_is_refused(
    street: tuple[Running, Upstream], body: bytes, told: str
) -> None:
    live, upstream_ = street
    answer = live.post("/v1/audio/transcriptions", body, **FORM)
    assert answer.status_code in {400, 403}
    assert told in answer.text
    assert upstream_.requests == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("images/generations", {"prompt": "draw a@example.org"}),
        ("images/generations", {"prompt": "draw", "negative_prompt": "a@example.org"}),
        ("audio/speech", {"input": "hello", "instructions": "as a@example.org", "voice": "a"}),
        ("moderations", {"input": ["hello", "a@example.org"]}),
        ("moderations", {"input": [{"type": "text", "text": "a@example.org"}]}),
        ("rerank", {"query": "who", "documents": ["x", {"text": "a@example.org"}]}),
        ("completions", {"prompt": "hello", "suffix": "a@example.org"}),
    ],
)
def test_personal_data_in_any_field_stays_here(
    street: tuple[Running, Upstream], path: str, body: dict[str, object]
) -> None:
    live, upstream_ = street
    assert live.post(f"/v1/{path}", {"model": "words", **body}).status_code == 403
    assert upstream_.requests == []


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("images/generations", {}, "`prompt` is missing"),
        ("audio/speech", {}, "`input` is missing"),
        ("rerank", {"query": "q"}, "`documents` is missing"),
        ("moderations", {"input": 3}, "input"),
    ],
)
def test_a_request_without_its_text_is_refused(
    street: tuple[Running, Upstream], path: str, body: dict[str, object], told: str
) -> None:
    live, _upstream = street
    answer = live.post(f"/v1/{path}", {"model": "words", **body})
    assert (answer.status_code, told in answer.text) == (400, True)


def test_keys_and_budgets_hold(street: tuple[Running, Upstream]) -> None:
    live, upstream_ = street
    given = {"name": "k", "scopes": ["models"], "allowed_models": ["open:words"]}
    key = live.post("/api/keys", given, **ADMIN).json()["key"]
    asked = {"model": "draw", "prompt": "x"}
    bearer = {"authorization": f"Bearer {key}"}
    assert live.post("/v1/images/generations", asked, **bearer).status_code == 403
    live.post("/api/budgets", {"name": "small", "limit_usd": 0.001}, **ADMIN)
    dear = live.post("/v1/images/generations", {**asked, "prompt": "other"}, **ADMIN)
    assert dear.status_code == 402
    unpriced = live.post("/v1/audio/transcriptions", GOOD, **FORM, **ADMIN)
    assert unpriced.status_code == 402
    assert upstream_.requests == []


def test_failures_and_cuts_are_told_as_everywhere(street: tuple[Running, Upstream]) -> None:
    live, upstream_ = street
    upstream_.then(fails(404, "not_found_error", "no such endpoint"))
    asked = {"model": "voice", "input": "x", "voice": "a"}
    refused = live.post("/v1/audio/speech", asked)
    assert (refused.status_code, "no such endpoint" in refused.text) == (404, True)
    upstream_.then(lambda _request: [SendBytes(sound("text/html", b"<p>log in</p>") + LAST_CHUNK)])
    page = live.post("/v1/audio/speech", {**asked, "input": "y"})
    assert (page.status_code, "a page" in page.text) == (502, True)
    upstream_.then(lambda _request: [SendBytes(sound("audio/mpeg", SOUND)), Reset()])
    with pytest.raises(Exception, match=r"(?i)peer|incomplete|disconnect|closed"):
        live.post("/v1/audio/speech", {**asked, "input": "z"})
    classes = [each["error_class"] for each in live.outcomes(3)]
    assert classes == ["invalid_request", "other", "network"]
    assert json.dumps(live.outcomes(3)).count("sound") == 0
