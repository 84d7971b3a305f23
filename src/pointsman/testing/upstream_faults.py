"""Faults of providers, by name: replies for a `ScriptedUpstream`.

The numbers are those of the fault list. Faults of the network itself are no replies: a refused
connection is `ScriptedUpstream(listens=False)`, names and addresses that lie are a resolver given
to the provider, certificates come from `TestAuthority`; bursts, flapping and a lost acknowledgement
are scripts of several replies.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from pointsman.providers.messages import Response, Text, ToolUse
from pointsman.testing.upstream_replies import (
    LAST_CHUNK,
    STREAM_HEAD,
    Close,
    Pause,
    Received,
    Reply,
    Reset,
    SendBytes,
    Step,
    a_response,
    answer_events,
    chunk,
    does,
    fails,
    head,
    json_answer,
    plain,
    says,
    stream_answer,
    whole_answer,
)
from pointsman.testing.upstream_wire import Json, error_body

_RESPONSE: Final = a_response(Text("one two three four"))
_TOOLS: Final = a_response(
    ToolUse("call_1", "look_up", Raw(b'{"q":"a"}')),
    ToolUse("call_2", "look_up", Raw(b'{"q":"b"}')),
    stop_reason="tool_use",
)
_MIB = 1024 * 1024


class ProviderFault(Struct, frozen=True):
    """One thing that goes wrong; `number` is its place in the list of thirty."""

    name: str
    number: int
    reply: Reply


def _parts(request: Received, response: Response = _RESPONSE) -> list[bytes]:
    """Return a good answer in pieces: its head, then its body in two halves or event by event."""
    if request.is_stream:
        return [STREAM_HEAD, *map(chunk, answer_events(request, response)), LAST_CHUNK]
    answer = json_answer(whole_answer(request, response))
    end = answer.index(b"\r\n\r\n") + 4
    middle = (end + len(answer)) // 2
    return [answer[:end], answer[end:middle], answer[middle:]]


def _break_body(*last: Step) -> Reply:
    """Send the head and the first part of the body, then do something else."""
    return lambda request: [*(SendBytes(part) for part in _parts(request)[:2]), *last]


def _before(*first: Step) -> Reply:
    """Do something, then answer as one should."""
    return lambda request: [*first, *(SendBytes(part) for part in _parts(request))]


def _drip(request: Received) -> Sequence[Step]:
    answer = b"".join(_parts(request))
    end = answer.index(b"\r\n\r\n") + 4
    dripped = [step for byte in answer[end:] for step in (SendBytes(bytes([byte])), Pause(0.01))]
    return [SendBytes(answer[:end]), *dripped]


def _without_end(request: Received) -> Sequence[Step]:
    """End the stream as HTTP wants it, but without the words that end an answer."""
    if not request.is_stream:
        return [SendBytes(plain(msgspec.json.encode(whole_answer(request, _RESPONSE))[:40]))]
    return [SendBytes(stream_answer(answer_events(request, _RESPONSE)[:2]))]


def _body(change: Callable[[bytes], bytes]) -> Reply:
    """Answer with other bytes: the whole body, or the data of an event, is change_usage."""

    def reply(request: Received) -> Sequence[Step]:
        if not request.is_stream:
            return [SendBytes(plain(change(msgspec.json.encode(whole_answer(request, _RESPONSE)))))]
        pieces = answer_events(request, _RESPONSE)
        lines = pieces[1].split(b"data: ")
        pieces[1] = lines[0] + b"data: " + change(lines[1].rstrip()) + b"\n\n"
        return [SendBytes(stream_answer(pieces))]

    return reply


def _usage(change: Callable[[Json], Json | None]) -> Reply:
    """Answer with another count of tokens, wherever the format tells it."""

    def change_usage(value: object) -> object:
        if isinstance(value, list):
            return [change_usage(each) for each in value]
        if not isinstance(value, dict):
            return value
        found: Json = {}
        for key, each in value.items():
            told = change(each) if key == "usage" and isinstance(each, dict) else change_usage(each)
            if not (key == "usage" and told is None):
                found[key] = told
        return found

    def reply(request: Received) -> Sequence[Step]:
        if not request.is_stream:
            value = change_usage(whole_answer(request, _RESPONSE))
            return [SendBytes(plain(msgspec.json.encode(value)))]
        return [SendBytes(stream_answer(map(event, answer_events(request, _RESPONSE))))]

    def event(piece: bytes) -> bytes:
        name, _data, data = piece.partition(b"data: ")
        if data.startswith(b"[DONE]"):
            return piece
        value = change_usage(msgspec.json.decode(data))
        return name + b"data: " + msgspec.json.encode(value) + b"\n\n"

    return reply


def _counts(value: object) -> Callable[[Json], Json]:
    return lambda usage: {
        key: value if isinstance(each, int) else each for key, each in usage.items()
    }


def _sse(change: Callable[[list[bytes]], list[bytes]]) -> Reply:
    """Change the events of a stream; an answer that is not stream_answer stays as it is."""
    return lambda request: (
        [SendBytes(stream_answer(change(answer_events(request, _RESPONSE))))]
        if request.is_stream
        else [SendBytes(part) for part in _parts(request)]
    )


def _tool_events(order: Callable[[list[bytes]], list[bytes]]) -> Reply:
    return lambda request: (
        [SendBytes(stream_answer(order(answer_events(request, _TOOLS))))]
        if request.is_stream
        else [SendBytes(part) for part in _parts(request, _TOOLS)]
    )


def _error_event(request: Received) -> Sequence[Step]:
    body = error_body(request.dialect, "overloaded_error", "Overloaded", "server_error")
    if not request.is_stream:
        return [SendBytes(json_answer(body))]
    if request.dialect == "responses":
        body = {"type": "error", "code": "server_error", "message": "Overloaded", "param": None}
    name = b"" if request.dialect == "chat" else b"event: error\n"
    told = name + b"data: " + msgspec.json.encode(body) + b"\n\n"
    return [SendBytes(stream_answer([*answer_events(request, _RESPONSE)[:2], told]))]


def _gzip_bomb(request: Received) -> Sequence[Step]:
    bomb = gzip.compress(bytes(_MIB), 1)
    kind = "text/event-stream" if request.is_stream else "application/json"
    return [SendBytes(plain(bomb, 200, {"content-encoding": "gzip"}, content_type=kind))]


def _rate_limit(after: str) -> Reply:
    headers = {"retry-after": after, "date": "Sun, 01 Mar 2026 00:00:00 GMT"}
    return fails(429, "rate_limit_error", code="rate_limit_exceeded", headers=headers)


def _raw(answer: bytes) -> Reply:
    return does(SendBytes(answer), Close())


def _swap_deltas(pieces: list[bytes]) -> list[bytes]:
    return [pieces[0], *reversed(pieces[1:-2]), *pieces[-2:]]


_LONG_PROMPT = "This model's maximum context length is 128000 tokens; prompt is too long"
_REFUSAL = "Output blocked by content filtering policy"
_REDIRECT = {"location": "http://169.254.169.254/latest/meta-data/"}
_ENDLESS = head(headers={"transfer-encoding": "chunked"})
_EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"

_ALL: Final = (
    ProviderFault("accept_then_silence", 4, does(Pause())),
    ProviderFault("reset_before_head", 6, does(Reset())),
    ProviderFault("close_before_head", 6, does(Close())),
    ProviderFault("reset_mid_body", 7, _break_body(Pause(0.02), Reset())),
    ProviderFault("close_mid_body", 7, _break_body(Close())),
    ProviderFault("stream_without_end", 8, _without_end),
    ProviderFault("slow_drip", 9, _drip),
    ProviderFault("late_head", 10, _before(Pause(0.3))),
    ProviderFault("late_first_token", 10, lambda r: [SendBytes(_parts(r)[0]), Pause()]),
    ProviderFault("stall_mid_body", 11, _break_body(Pause())),
    ProviderFault("status_500", 12, fails(500)),
    ProviderFault(
        "status_502", 12, _raw(plain(b"<html>bad gateway</html>", 502, content_type="text/html"))
    ),
    ProviderFault("status_503", 12, fails(503, headers={"retry-after": "0"})),
    ProviderFault("status_529", 12, fails(529, "overloaded_error", "Overloaded")),
    ProviderFault("rate_limit", 13, fails(429, "rate_limit_error", code="rate_limit_exceeded")),
    ProviderFault("rate_limit_seconds", 13, _rate_limit("7")),
    ProviderFault("rate_limit_date", 13, _rate_limit("Sun, 01 Mar 2026 00:00:09 GMT")),
    ProviderFault("rate_limit_negative", 13, _rate_limit("-5")),
    ProviderFault("rate_limit_huge", 13, _rate_limit("1000000000")),
    ProviderFault("rate_limit_garbage", 13, _rate_limit("soon\x80")),
    ProviderFault("unauthorized", 14, fails(401, "authentication_error", code="invalid_api_key")),
    ProviderFault("forbidden", 14, fails(403, "permission_error")),
    ProviderFault(
        "policy_refusal",
        14,
        fails(403, "invalid_request_error", _REFUSAL, code="content_policy_violation"),
    ),
    ProviderFault("not_found", 14, fails(404, "not_found_error", code="model_not_found")),
    ProviderFault(
        "context_length",
        15,
        fails(400, "invalid_request_error", _LONG_PROMPT, code="context_length_exceeded"),
    ),
    ProviderFault("too_large", 15, fails(413, "request_too_large")),
    ProviderFault(
        "error_object",
        16,
        lambda r: [SendBytes(json_answer(error_body(r.dialect, "api_error", "x")))],
    ),
    ProviderFault("html", 17, _raw(plain(b"<html>welcome</html>", content_type="text/html"))),
    ProviderFault("malformed_json", 18, _body(lambda body: body.replace(b":", b"=", 1))),
    ProviderFault("truncated_json", 18, _body(lambda body: body[: len(body) // 2])),
    ProviderFault("duplicate_keys", 18, _body(lambda body: b'{"id":"x",' + body[1:])),
    ProviderFault("nan_json", 18, _body(lambda body: b'{"created":NaN,' + body[1:])),
    ProviderFault("empty_body", 18, _raw(plain(b""))),
    ProviderFault(
        "endless_body", 19, does(SendBytes(_ENDLESS), SendBytes(chunk(b" " * 65_536), times=0))
    ),
    ProviderFault(
        "huge_body",
        19,
        does(
            SendBytes(head(headers={"content-length": str(1024 * _MIB)})),
            SendBytes(b" " * _MIB, 1024),
        ),
    ),
    ProviderFault("gzip_bomb", 19, _gzip_bomb),
    ProviderFault(
        "sse_cr_only", 20, _sse(lambda all_: [each.replace(b"\n", b"\r") for each in all_])
    ),
    ProviderFault(
        "sse_crlf", 20, _sse(lambda all_: [each.replace(b"\n", b"\r\n") for each in all_])
    ),
    ProviderFault(
        "sse_crlf_split",
        20,
        _sse(lambda all_: [bytes([b]) for e in all_ for b in e.replace(b"\n", b"\r\n")]),
    ),
    ProviderFault("sse_bom", 20, _sse(lambda all_: [b"\xef\xbb\xbf" + all_[0], *all_[1:]])),
    ProviderFault(
        "sse_line_separator",
        20,
        _body(lambda body: body.replace(b"one", "one\u2028".encode(), 1)),
    ),
    ProviderFault("sse_comments", 20, _sse(lambda all_: [b": ping\n\n" + each for each in all_])),
    ProviderFault(
        "sse_no_space", 20, _sse(lambda all_: [e.replace(b"data: ", b"data:") for e in all_])
    ),
    ProviderFault(
        "sse_many_data_lines",
        20,
        _sse(lambda all_: [each.replace(b',"', b',\ndata: "', 1) for each in all_]),
    ),
    ProviderFault("sse_no_last_blank_line", 20, _sse(lambda all_: [*all_[:-1], all_[-1].rstrip()])),
    ProviderFault(
        "sse_garbage", 20, _sse(lambda all_: [all_[0], b"\x00\xff garbage\n\n", *all_[1:]])
    ),
    ProviderFault(
        "sse_long_line",
        20,
        _sse(lambda all_: [*all_[:1], b":" + b"x" * 10 * _MIB + b"\n\n", *all_[1:]]),
    ),
    ProviderFault("error_event", 20, _error_event),
    ProviderFault(
        "utf8_split", 21, _sse(lambda all_: [bytes([byte]) for each in all_ for byte in each])
    ),
    ProviderFault("utf8_invalid", 21, _body(lambda body: body.replace(b"one", b"\xff\xfe", 1))),
    ProviderFault("usage_missing", 22, _usage(lambda _usage: None)),
    ProviderFault("usage_negative", 22, _usage(_counts(-5))),
    ProviderFault("usage_huge", 22, _usage(_counts(2**63))),
    ProviderFault("usage_float", 22, _usage(_counts(1.5))),
    ProviderFault("usage_contradictory", 22, _usage(lambda usage: {**usage, "total_tokens": 1})),
    ProviderFault("tool_deltas_out_of_order", 23, _tool_events(_swap_deltas)),
    ProviderFault("tool_deltas_twice", 23, _tool_events(lambda all_: [*all_[:2], *all_[1:]])),
    ProviderFault(
        "redirect", 24, _raw(plain(b"", 302, {"location": "https://elsewhere.example/v1"}))
    ),
    ProviderFault("redirect_to_metadata", 24, _raw(plain(b"", 307, _REDIRECT))),
    ProviderFault(
        "length_and_chunks",
        25,
        _raw(head(headers={"content-length": "5", "transfer-encoding": "chunked"}) + LAST_CHUNK),
    ),
    ProviderFault(
        "two_lengths",
        25,
        _raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}"),
    ),
    ProviderFault("length_too_long", 25, _raw(head(headers={"content-length": "99"}) + b"{}")),
    ProviderFault("length_too_short", 25, _raw(head(headers={"content-length": "1"}) + b"{}")),
    ProviderFault("chunk_garbage", 25, _raw(STREAM_HEAD + b"zz\r\nhello\r\n" + LAST_CHUNK)),
    ProviderFault("interim_flood", 25, does(SendBytes(_EARLY_HINTS * 100, times=0))),
    ProviderFault(
        "huge_head",
        25,
        does(SendBytes(b"HTTP/1.1 200 OK\r\n"), SendBytes(b"x-a: b\r\n" * 1024, times=128)),
    ),
    ProviderFault("not_http", 25, _raw(b"SSH-2.0-OpenSSH_9.2\r\n")),
    ProviderFault(
        "other_model", 26, lambda r: says("x")(msgspec.structs.replace(r, body=_rename_model(r)))
    ),
    ProviderFault("acknowledgement_lost", 27, does(Pause(0.02), Reset())),
    ProviderFault(
        "date_off",
        30,
        lambda r: [
            SendBytes(
                json_answer(
                    whole_answer(r, _RESPONSE), headers={"date": "Sat, 01 Jan 2028 00:00:00 GMT"}
                )
            )
        ],
    ),
)


def _rename_model(request: Received) -> bytes:
    return msgspec.json.encode({**request.json, "model": "another-model"})


FAULTS: Final[dict[str, ProviderFault]] = {fault.name: fault for fault in _ALL}
"""Every fault that is a reply, by its name."""
