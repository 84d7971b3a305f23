"""What providers do wrong, by name: replies for a `ScriptedUpstream`.

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
    Send,
    Step,
    a_response,
    chunk,
    does,
    fails,
    head,
    json_answer,
    plain,
    said_events,
    said_whole,
    says,
    streamed,
)
from pointsman.testing.upstream_wire import Json, error_body

_SAID: Final = a_response(Text("one two three four"))
_TOOLS: Final = a_response(
    ToolUse("call_1", "look_up", Raw(b'{"q":"a"}')),
    ToolUse("call_2", "look_up", Raw(b'{"q":"b"}')),
    stop_reason="tool_use",
)
_MIB = 1024 * 1024


class Fault(Struct, frozen=True):
    """One thing that goes wrong; `number` is its place in the list of thirty."""

    name: str
    number: int
    reply: Reply


def _parts(request: Received, response: Response = _SAID) -> list[bytes]:
    """Give a good answer in pieces: its head, then its body in two halves or event by event."""
    if request.is_stream:
        return [STREAM_HEAD, *map(chunk, said_events(request, response)), LAST_CHUNK]
    answer = json_answer(said_whole(request, response))
    end = answer.index(b"\r\n\r\n") + 4
    middle = (end + len(answer)) // 2
    return [answer[:end], answer[end:middle], answer[middle:]]


def _cut(*last: Step) -> Reply:
    """Send the head and the first part of the body, then do something else."""
    return lambda request: [*(Send(part) for part in _parts(request)[:2]), *last]


def _before(*first: Step) -> Reply:
    """Do something, then answer as one should."""
    return lambda request: [*first, *(Send(part) for part in _parts(request))]


def _drip(request: Received) -> Sequence[Step]:
    answer = b"".join(_parts(request))
    end = answer.index(b"\r\n\r\n") + 4
    dripped = [step for byte in answer[end:] for step in (Send(bytes([byte])), Pause(0.01))]
    return [Send(answer[:end]), *dripped]


def _unfinished(request: Received) -> Sequence[Step]:
    """End the stream as HTTP wants it, but without the words that end an answer."""
    if not request.is_stream:
        return [Send(plain(msgspec.json.encode(said_whole(request, _SAID))[:40]))]
    return [Send(streamed(said_events(request, _SAID)[:2]))]


def _body(change: Callable[[bytes], bytes]) -> Reply:
    """Answer with other bytes: the whole body, or the data of an event, is changed."""

    def reply(request: Received) -> Sequence[Step]:
        if not request.is_stream:
            return [Send(plain(change(msgspec.json.encode(said_whole(request, _SAID)))))]
        pieces = said_events(request, _SAID)
        lines = pieces[1].split(b"data: ")
        pieces[1] = lines[0] + b"data: " + change(lines[1].rstrip()) + b"\n\n"
        return [Send(streamed(pieces))]

    return reply


def _usage(change: Callable[[Json], Json | None]) -> Reply:
    """Answer with another count of tokens, wherever the format tells it."""

    def changed(value: object) -> object:
        if isinstance(value, list):
            return [changed(each) for each in value]
        if not isinstance(value, dict):
            return value
        found: Json = {}
        for key, each in value.items():
            told = change(each) if key == "usage" and isinstance(each, dict) else changed(each)
            if not (key == "usage" and told is None):
                found[key] = told
        return found

    def reply(request: Received) -> Sequence[Step]:
        if not request.is_stream:
            value = changed(said_whole(request, _SAID))
            return [Send(plain(msgspec.json.encode(value)))]
        return [Send(streamed(map(event, said_events(request, _SAID))))]

    def event(piece: bytes) -> bytes:
        name, _data, data = piece.partition(b"data: ")
        if data.startswith(b"[DONE]"):
            return piece
        value = changed(msgspec.json.decode(data))
        return name + b"data: " + msgspec.json.encode(value) + b"\n\n"

    return reply


def _counts(value: object) -> Callable[[Json], Json]:
    return lambda usage: {
        key: value if isinstance(each, int) else each for key, each in usage.items()
    }


def _sse(change: Callable[[list[bytes]], list[bytes]]) -> Reply:
    """Change the events of a stream; an answer that is not streamed stays as it is."""
    return lambda request: (
        [Send(streamed(change(said_events(request, _SAID))))]
        if request.is_stream
        else [Send(part) for part in _parts(request)]
    )


def _tool_events(order: Callable[[list[bytes]], list[bytes]]) -> Reply:
    return lambda request: (
        [Send(streamed(order(said_events(request, _TOOLS))))]
        if request.is_stream
        else [Send(part) for part in _parts(request, _TOOLS)]
    )


def _error_event(request: Received) -> Sequence[Step]:
    body = error_body(request.dialect, "overloaded_error", "Overloaded", "server_error")
    if not request.is_stream:
        return [Send(json_answer(body))]
    if request.dialect == "responses":
        body = {"type": "error", "code": "server_error", "message": "Overloaded", "param": None}
    name = b"" if request.dialect == "chat" else b"event: error\n"
    told = name + b"data: " + msgspec.json.encode(body) + b"\n\n"
    return [Send(streamed([*said_events(request, _SAID)[:2], told]))]


def _packed(request: Received) -> Sequence[Step]:
    bomb = gzip.compress(bytes(_MIB), 1)
    kind = "text/event-stream" if request.is_stream else "application/json"
    return [Send(plain(bomb, 200, {"content-encoding": "gzip"}, content_type=kind))]


def _limited(after: str) -> Reply:
    headers = {"retry-after": after, "date": "Sun, 01 Mar 2026 00:00:00 GMT"}
    return fails(429, "rate_limit_error", code="rate_limit_exceeded", headers=headers)


def _raw(answer: bytes) -> Reply:
    return does(Send(answer), Close())


def _swapped(pieces: list[bytes]) -> list[bytes]:
    return [pieces[0], *reversed(pieces[1:-2]), *pieces[-2:]]


_LONG_PROMPT = "This model's maximum context length is 128000 tokens; prompt is too long"
_REFUSAL = "Output blocked by content filtering policy"
_REDIRECT = {"location": "http://169.254.169.254/latest/meta-data/"}
_ENDLESS = head(headers={"transfer-encoding": "chunked"})
_EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"

_ALL: Final = (
    Fault("accept_then_silence", 4, does(Pause())),
    Fault("reset_before_head", 6, does(Reset())),
    Fault("close_before_head", 6, does(Close())),
    Fault("reset_mid_body", 7, _cut(Pause(0.02), Reset())),
    Fault("close_mid_body", 7, _cut(Close())),
    Fault("stream_without_end", 8, _unfinished),
    Fault("slow_drip", 9, _drip),
    Fault("late_head", 10, _before(Pause(0.3))),
    Fault("late_first_token", 10, lambda r: [Send(_parts(r)[0]), Pause()]),
    Fault("stall_mid_body", 11, _cut(Pause())),
    Fault("status_500", 12, fails(500)),
    Fault(
        "status_502", 12, _raw(plain(b"<html>bad gateway</html>", 502, content_type="text/html"))
    ),
    Fault("status_503", 12, fails(503, headers={"retry-after": "0"})),
    Fault("status_529", 12, fails(529, "overloaded_error", "Overloaded")),
    Fault("rate_limit", 13, fails(429, "rate_limit_error", code="rate_limit_exceeded")),
    Fault("rate_limit_seconds", 13, _limited("7")),
    Fault("rate_limit_date", 13, _limited("Sun, 01 Mar 2026 00:00:09 GMT")),
    Fault("rate_limit_negative", 13, _limited("-5")),
    Fault("rate_limit_huge", 13, _limited("1000000000")),
    Fault("rate_limit_garbage", 13, _limited("soon\x80")),
    Fault("unauthorized", 14, fails(401, "authentication_error", code="invalid_api_key")),
    Fault("forbidden", 14, fails(403, "permission_error")),
    Fault(
        "policy_refusal",
        14,
        fails(403, "invalid_request_error", _REFUSAL, code="content_policy_violation"),
    ),
    Fault("not_found", 14, fails(404, "not_found_error", code="model_not_found")),
    Fault(
        "context_length",
        15,
        fails(400, "invalid_request_error", _LONG_PROMPT, code="context_length_exceeded"),
    ),
    Fault("too_large", 15, fails(413, "request_too_large")),
    Fault(
        "error_object", 16, lambda r: [Send(json_answer(error_body(r.dialect, "api_error", "x")))]
    ),
    Fault("html", 17, _raw(plain(b"<html>welcome</html>", content_type="text/html"))),
    Fault("malformed_json", 18, _body(lambda body: body.replace(b":", b"=", 1))),
    Fault("truncated_json", 18, _body(lambda body: body[: len(body) // 2])),
    Fault("duplicate_keys", 18, _body(lambda body: b'{"id":"x",' + body[1:])),
    Fault("nan_json", 18, _body(lambda body: b'{"created":NaN,' + body[1:])),
    Fault("empty_body", 18, _raw(plain(b""))),
    Fault("endless_body", 19, does(Send(_ENDLESS), Send(chunk(b" " * 65_536), times=0))),
    Fault(
        "huge_body",
        19,
        does(Send(head(headers={"content-length": str(1024 * _MIB)})), Send(b" " * _MIB, 1024)),
    ),
    Fault("gzip_bomb", 19, _packed),
    Fault("sse_cr_only", 20, _sse(lambda all_: [each.replace(b"\n", b"\r") for each in all_])),
    Fault("sse_crlf", 20, _sse(lambda all_: [each.replace(b"\n", b"\r\n") for each in all_])),
    Fault(
        "sse_crlf_split",
        20,
        _sse(lambda all_: [bytes([b]) for e in all_ for b in e.replace(b"\n", b"\r\n")]),
    ),
    Fault("sse_bom", 20, _sse(lambda all_: [b"\xef\xbb\xbf" + all_[0], *all_[1:]])),
    Fault(
        "sse_line_separator",
        20,
        _body(lambda body: body.replace(b"one", "one\u2028".encode(), 1)),
    ),
    Fault("sse_comments", 20, _sse(lambda all_: [b": ping\n\n" + each for each in all_])),
    Fault("sse_no_space", 20, _sse(lambda all_: [e.replace(b"data: ", b"data:") for e in all_])),
    Fault(
        "sse_many_data_lines",
        20,
        _sse(lambda all_: [each.replace(b',"', b',\ndata: "', 1) for each in all_]),
    ),
    Fault("sse_no_last_blank_line", 20, _sse(lambda all_: [*all_[:-1], all_[-1].rstrip()])),
    Fault("sse_garbage", 20, _sse(lambda all_: [all_[0], b"\x00\xff garbage\n\n", *all_[1:]])),
    Fault(
        "sse_long_line",
        20,
        _sse(lambda all_: [*all_[:1], b":" + b"x" * 10 * _MIB + b"\n\n", *all_[1:]]),
    ),
    Fault("error_event", 20, _error_event),
    Fault("utf8_split", 21, _sse(lambda all_: [bytes([byte]) for each in all_ for byte in each])),
    Fault("utf8_invalid", 21, _body(lambda body: body.replace(b"one", b"\xff\xfe", 1))),
    Fault("usage_missing", 22, _usage(lambda _usage: None)),
    Fault("usage_negative", 22, _usage(_counts(-5))),
    Fault("usage_huge", 22, _usage(_counts(2**63))),
    Fault("usage_float", 22, _usage(_counts(1.5))),
    Fault("usage_contradictory", 22, _usage(lambda usage: {**usage, "total_tokens": 1})),
    Fault("tool_deltas_out_of_order", 23, _tool_events(_swapped)),
    Fault("tool_deltas_twice", 23, _tool_events(lambda all_: [*all_[:2], *all_[1:]])),
    Fault("redirect", 24, _raw(plain(b"", 302, {"location": "https://elsewhere.example/v1"}))),
    Fault("redirect_to_metadata", 24, _raw(plain(b"", 307, _REDIRECT))),
    Fault(
        "length_and_chunks",
        25,
        _raw(head(headers={"content-length": "5", "transfer-encoding": "chunked"}) + LAST_CHUNK),
    ),
    Fault(
        "two_lengths",
        25,
        _raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}"),
    ),
    Fault("length_too_long", 25, _raw(head(headers={"content-length": "99"}) + b"{}")),
    Fault("length_too_short", 25, _raw(head(headers={"content-length": "1"}) + b"{}")),
    Fault("chunk_garbage", 25, _raw(STREAM_HEAD + b"zz\r\nhello\r\n" + LAST_CHUNK)),
    Fault("interim_flood", 25, does(Send(_EARLY_HINTS * 100, times=0))),
    Fault(
        "huge_head", 25, does(Send(b"HTTP/1.1 200 OK\r\n"), Send(b"x-a: b\r\n" * 1024, times=128))
    ),
    Fault("not_http", 25, _raw(b"SSH-2.0-OpenSSH_9.2\r\n")),
    Fault("other_model", 26, lambda r: says("x")(msgspec.structs.replace(r, body=_renamed(r)))),
    Fault("acknowledgement_lost", 27, does(Pause(0.02), Reset())),
    Fault(
        "date_off",
        30,
        lambda r: [
            Send(
                json_answer(said_whole(r, _SAID), headers={"date": "Sat, 01 Jan 2028 00:00:00 GMT"})
            )
        ],
    ),
)


def _renamed(request: Received) -> bytes:
    return msgspec.json.encode({**request.json, "model": "another-model"})


FAULTS: Final[dict[str, Fault]] = {fault.name: fault for fault in _ALL}
"""Every fault that is a reply, by its name."""
