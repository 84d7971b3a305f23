"""What providers' errors mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.providers.failures import complaint_of, failure_inside, failure_of, retry_after_s

NOW = 1_772_323_200.0  # Sun, 01 Mar 2026 00:00:00 GMT


def failed(status, body=b"", **headers):
    return failure_of("it", status, headers, body, NOW)


@pytest.mark.parametrize(
    ("status", "error_class"),
    [
        (301, "other"), (400, "invalid_request"), (401, "auth"), (402, "invalid_request"),
        (403, "auth"), (404, "invalid_request"), (408, "network"), (409, "invalid_request"),
        (413, "context_overflow"), (422, "invalid_request"), (429, "rate_limit"),
        (500, "server_error"), (502, "server_error"), (503, "server_error"),
        (504, "server_error"), (529, "server_error"),
    ],
)  # fmt: skip
def test_every_status_has_a_class(status, error_class):
    error = failed(status)
    assert (error.error_class, error.status) == (error_class, status)


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"code":"context_length_exceeded","message":"x"}}',
        b'{"error":{"message":"This model\'s maximum context length is 8192 tokens."}}',
        b'{"type":"error","error":{"type":"x","message":"prompt is too long: 21 tokens > 20"}}',
        b'{"type":"error","error":{"message":"input and `max_tokens` exceed context limit"}}',
        b'{"error":{"code":400,"type":"exceed_context_size_error","message":"x"}}',
        b'{"object":"error","message":"the maximum context length is 9","type":"BadRequestError"}',
    ],
)
def test_prompts_that_are_too_long_are_known_by_code_or_words(body):
    assert failed(400, body).error_class == "context_overflow"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b'{"error":{"code":"content_policy_violation"}}'),
        (400, b'{"error":{"code":"content_filter","innererror":{"code":"x"}}}'),
        (400, b'{"error":{"code":null,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}'),
        (400, b'{"error":{"type":"x","message":"Output blocked by content filtering policy"}}'),
        (403, b'{"error":{"code":403,"message":"Your chosen model requires moderation"}}'),
    ],
)  # fmt: skip
def test_refusals_by_policy_are_no_matter_of_the_key(status, body):
    error = failed(status, body)
    assert (error.is_policy_refusal, error.error_class) == (True, "invalid_request")


@given(st.integers(300, 599), st.binary(max_size=200))
def test_any_body_gives_an_error(status, body):
    error = failed(status, body)
    assert error.status == status
    assert "\n" not in str(error)


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"error":' * 50_000, b"null", b"[]", b"\xff"])
def test_hostile_bodies_say_nothing(body):
    assert complaint_of(body) is None


def test_the_providers_words_stay_out_of_the_message():
    error = failed(400, b'{"error":{"code":"bad_value","message":"user said: my secret diary"}}')
    assert str(error) == "provider.failed: `it` answered 400: bad_value"
    assert b"diary" in error.body


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1000000000"}, 60.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "9" * 5000}, None),
        ({"retry-after": "\u0663"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Sun, 01 Mar 2026 00:00:09 GMT"}, 9.0),
        ({"retry-after": "Sunday, 01-Mar-26 00:00:09 GMT"}, 9.0),
        ({"retry-after": "Sun Mar  1 00:00:09 2026"}, 9.0),
        ({"retry-after": "Sun, 01 Mar 2026 01:00:09 +0100"}, 9.0),
        ({"retry-after": "Sat, 28 Feb 2026 23:00:00 GMT"}, 0.0),
        ({"retry-after": "Sun, 01 Mar 2026 02:00:00 GMT"}, 60.0),
        ({"retry-after": "Sun, 99 Mar 2026 00:00:09 GMT"}, None),
        ({"retry-after": "Sun, 01 Mar 99999999999 00:00:09 GMT"}, None),
        (
            {
                "retry-after": "Mon, 01 Mar 2027 00:00:09 GMT",
                "date": "Mon, 01 Mar 2027 00:00:00 GMT",
            },
            9.0,
        ),
    ],
)
def test_when_to_come_back(headers, seconds):
    assert retry_after_s(headers, NOW) == seconds


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_gives_a_pause_or_none(after, date):
    seconds = retry_after_s({"retry-after": after, "date": date}, NOW)
    assert seconds is None or 0 <= seconds <= 60


@pytest.mark.parametrize(
    ("body", "error_class"),
    [
        (b'{"error":{"type":"overloaded_error","message":"x"}}', "server_error"),
        (b'{"type":"error","error":{"type":"rate_limit_error","message":"x"}}', "rate_limit"),
        (b'{"type":"error","code":"server_error","message":"x"}', "server_error"),
        (b'{"error":{"code":"invalid_api_key","type":"invalid_request_error"}}', "auth"),
        (b'{"error":{"type":"x","message":"prompt is too long"}}', "context_overflow"),
        (b'{"error":{"code":"content_filter"}}', "invalid_request"),
        (b'{"error":"model is loading"}', "other"),
    ],
)
def test_errors_inside_answers_have_a_class_too(body, error_class):
    error = failure_inside("it", body)
    assert error is not None
    assert error.error_class == error_class


@pytest.mark.parametrize("body", [b'{"id":"x","error":null,"choices":[]}', b'{"choices":[]}', b""])
def test_good_answers_hold_no_error(body):
    assert failure_inside("it", body) is None
