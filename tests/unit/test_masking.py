"""Masking of requests and restoring of answers, in the three wire formats."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pointsman.providers.dialects.masked_body import Restoring, mask_body
from pointsman.providers.dialects.restored_stream import RestoredStream
from pointsman.signals.hit import Hit
from pointsman.signals.masking import Placeholders, quote_in_json

MAIL, IBAN = "ann.lee@example.com", "DE89 3704 0044 0532 0130 00"
SECRET = 'se"cr\\et-Zz81kq!'


def placeholders(session: str = "s", key: bytes = b"k") -> Placeholders:
    return Placeholders(key, session, lambda kind: not kind.startswith("medical"))


def quoted_secret() -> tuple[Placeholders, str]:
    """Give a placeholder whose value has signs that JSON escapes."""

    def find(text: str) -> list[Hit]:
        at = text.find(SECRET)
        return [] if at < 0 else [Hit("generic_secret", "secret", at, at + len(SECRET), "")]

    made = Placeholders(b"k", "s", lambda _kind: True, find)
    return made, made.mask(SECRET)


def masked(body: object, session: str = "s") -> tuple[dict, Placeholders]:
    made = placeholders(session)
    found = mask_body(json.dumps(body).encode(), made)
    assert found.obstacle == ""
    return json.loads(found.body), made


def test_a_value_has_one_placeholder_in_all_requests_of_a_session() -> None:
    first, made = masked({"messages": [{"role": "user", "content": f"write to {MAIL}"}]})
    again, _ = masked({"messages": [{"role": "user", "content": f"{MAIL}, {MAIL}"}]})
    other, _ = masked({"messages": [{"role": "user", "content": MAIL}]}, session="t")
    word = made.mask(MAIL)
    assert first["messages"][0]["content"] == f"write to {word}"
    assert again["messages"][0]["content"] == f"{word}, {word}"
    assert word.startswith("EMAIL_")
    assert other["messages"][0]["content"] != word


def test_a_value_is_masked_where_only_its_neighbours_would_tell_it() -> None:
    body = {
        "messages": [
            {"role": "user", "content": "use zQ81kqPw77"},
            {"role": "user", "content": "password: zQ81kqPw77"},
        ]
    }
    found, _ = masked(body)
    assert "zQ81kqPw77" not in json.dumps(found)


def test_arguments_and_results_of_tools_are_masked_and_names_are_not() -> None:
    body = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": MAIL}]},
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "send", "arguments": json.dumps({"to": [MAIL]})},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": f"sent to {MAIL}"},
        ],
        "temperature": 0.7,
    }
    found, made = masked(body)
    assert MAIL not in json.dumps(found)
    arguments = found["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"to": [made.mask(MAIL)]}
    restored = json.loads(Restoring(made).body(json.dumps(found).encode()))
    call = restored["messages"][1]["tool_calls"][0]["function"]
    call["arguments"] = json.dumps(json.loads(call["arguments"]))
    assert restored == body


def test_what_holds_nothing_keeps_its_bytes() -> None:
    one = b'{"role":  "user", "content": "plain \\u00e9"}'
    other = b'{"role": "user","content": "to ann.lee@example.com"}'
    body = b'{"model": "m",  "messages": [%b, %b]}' % (one, other)
    found = mask_body(body, placeholders())
    assert one in found.body
    assert b"ann.lee" not in found.body
    assert found.counts == {"pii.email": 1}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"messages": [{"role": "user", "name": MAIL, "content": MAIL}]}, "pii.email stands"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": MAIL},
                            {"type": "image_url", "image_url": {"url": "https://e.org/a.png"}},
                        ],
                    }
                ]
            },
            "`image_url`",
        ),
        ({"input": MAIL, "previous_response_id": "r1"}, "previous_response_id"),
        ({"messages": [{"role": "user", "content": MAIL}], MAIL: 1}, "pii.email stands"),
    ],
)
def test_what_cannot_be_masked_says_why(body: object, said: str) -> None:
    assert said in mask_body(json.dumps(body).encode(), placeholders()).obstacle


def test_a_placeholder_is_no_hit_itself() -> None:
    body = {"messages": [{"role": "user", "content": f"password: zQ81kqPw77 token={MAIL}"}]}
    masked(body)


def events(dialect: str, pieces: list[str]) -> bytes:
    """Give a stream of text and of a tool's arguments in these pieces."""
    if dialect == "chat":
        chunks = [
            {"index": 0, "delta": {"content": each}, "finish_reason": None} for each in pieces
        ]
        call = [
            {"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": each}}]}}
            for each in json_pieces(pieces)
        ]
        end = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
        lines = [{"id": "x", "choices": [each]} for each in (*chunks, *call, *end)]
        return b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in lines) + (
            b"data: [DONE]\n\n"
        )
    if dialect == "messages":
        told = [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": e}}
            for e in pieces
        ]
        told.append({"type": "content_block_stop", "index": 0})
        told += [
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": e},
            }
            for e in json_pieces(pieces)
        ]
        told.append({"type": "content_block_stop", "index": 1})
        return named(told)
    whole = "".join(pieces)
    told = [
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": e}
        for e in pieces
    ]
    told.append(
        {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": whole}
    )
    told += [
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": e}
        for e in json_pieces(pieces)
    ]
    done = {"type": "response.function_call_arguments.done", "output_index": 1}
    told.append({**done, "arguments": json.dumps({"a": whole})})
    return named([{**each, "sequence_number": n} for n, each in enumerate(told)])


def json_pieces(pieces: list[str]) -> list[str]:
    inside = [json.dumps(each, ensure_ascii=False)[1:-1] for each in pieces]
    return ['{"a":"', *inside, '"}']


def named(told: list[dict]) -> bytes:
    return b"".join(
        b"event: " + e["type"].encode() + b"\ndata: " + json.dumps(e).encode() + b"\n\n"
        for e in told
    )


def read_stream(dialect: str, data: bytes) -> tuple[str, str]:
    """Put the text and the arguments of a stream together, as a client does."""
    text = arguments = ""
    numbers = []
    for line in data.splitlines():
        if not line.startswith(b"data: ") or line == b"data: [DONE]":
            continue
        event = json.loads(line[6:])
        numbers.append(event.get("sequence_number"))
        if dialect == "chat":
            delta = event["choices"][0]["delta"]
            text += delta.get("content", "")
            for call in delta.get("tool_calls", []):
                arguments += call["function"]["arguments"]
        elif dialect == "messages":
            delta = event.get("delta", {})
            text += delta.get("text", "")
            arguments += delta.get("partial_json", "")
        elif event["type"].endswith(".delta"):
            if "arguments" in event["type"]:
                arguments += event["delta"]
            else:
                text += event["delta"]
        elif "text" in event:
            assert event["text"] == text
        else:
            assert json.loads(event["arguments"]) == {"a": text}
    if dialect == "responses":
        assert numbers == list(range(len(numbers)))
    return text, json.loads(arguments)["a"]


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.data(),
    words=st.lists(st.sampled_from([MAIL, IBAN, "EMAIL_", "E", "EMA ", " and ", "naïve\n"])),
)
def test_a_stream_is_restored_however_it_is_cut(
    dialect: str, data: st.DataObject, words: list[str]
) -> None:
    text = "".join(words)
    made = placeholders()
    for each in (MAIL, IBAN):
        made.collect(each)
    sent = made.mask(text)
    want = made.restore(sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=12)))
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    stream = RestoredStream(dialect, Restoring(made))  # type: ignore[arg-type]
    lines = events(dialect, pieces).splitlines(keepends=True)
    out = b"".join(stream.edit(each) for each in lines)
    assert read_stream(dialect, out) == (want, want)


def test_a_value_with_signs_of_json_is_quoted_inside_arguments() -> None:
    made, word = quoted_secret()
    call = {"function": {"arguments": f'{{"p":"{word}"}}'}}
    body = {"choices": [{"message": {"tool_calls": [call]}}]}
    told = json.loads(Restoring(made).body(json.dumps(body).encode()))
    arguments = told["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"p": SECRET}
    assert quote_in_json(SECRET) in arguments


def test_a_json_answer_quotes_values_in_its_text() -> None:
    made, word = quoted_secret()
    body = json.dumps({"choices": [{"message": {"content": f'{{"p":"{word}"}}'}}]}).encode()
    told = json.loads(Restoring(made, is_json=True).body(body))
    assert json.loads(told["choices"][0]["message"]["content"]) == {"p": SECRET}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from([MAIL, IBAN, "+49 30 1234567", " ", "x", "\n", "mail: ", "é"])))
def test_what_was_masked_comes_back_byte_for_byte(words: list[str]) -> None:
    text = "".join(words)
    made = placeholders()
    made.collect(text)
    assert made.restore(made.mask(text)) == text


def test_values_that_overlap_are_masked_as_one() -> None:
    def find(text: str) -> list[Hit]:
        values = ("AAAAAA BBBBBB", "BBBBBB CCCCCC")
        found = [(text.find(each), each) for each in values]
        return [Hit("email", "pii", at, at + len(each), "") for at, each in found if at >= 0]

    made = Placeholders(b"k", "s", lambda _kind: True, find)
    text = "x AAAAAA BBBBBB CCCCCC y"
    masked_text = made.mask(text)
    assert not {"AAAAAA", "BBBBBB", "CCCCCC"} & set(masked_text.split())
    assert made.restore(masked_text) == text
