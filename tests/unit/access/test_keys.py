"""Who a call comes from, as a function of the keys there are and of what it carries."""

import pickle
from pathlib import Path

import pytest
from msgspec.structs import replace

from pointsman.access.caps import Cap, Limit
from pointsman.access.keys import (
    ADMIN,
    ANONYMOUS,
    ENTROPY_BYTES,
    SCOPES,
    Key,
    KeyRefusal,
    Keys,
    Principal,
    Scope,
    admin_token,
    credential_of,
    key_body,
    key_token,
    known_key,
    principal,
    read_key,
    state_of,
    tighten_privacy,
    token_digest,
)
from pointsman.errors import IntegrityFailure, NotAuthenticated, NotPermitted
from pointsman.kernel.instant import Instant, read_instant
from pointsman.kernel.number import MicroUsd

NOW = read_instant("2026-03-01T00:00:00Z")
KEY_ID, TOKEN = key_token(bytes(range(ENTROPY_BYTES)))
OTHER_ID, OTHER = key_token(bytes(range(100, 100 + ENTROPY_BYTES)))
ADMIN_TOKEN = admin_token(bytes(range(32)))


def a_key(**changes: object) -> Key:
    return replace(Key(KEY_ID, "ci", NOW), **changes)


def ring(*, revoked_at: Instant | None = None, **changes: object) -> Keys:
    known = known_key(a_key(**changes), token_digest(TOKEN), revoked_at)
    return Keys({KEY_ID: known}, token_digest(ADMIN_TOKEN))


NO_KEYS = Keys({}, token_digest(ADMIN_TOKEN))


def who(
    keys: Keys, credential: str | None, scope: Scope = "models", *, loopback: bool = False
) -> Principal:
    return principal(keys, credential, scope=scope, is_loopback=loopback, now=NOW)


def refusal(keys: Keys, credential: str | None, scope: Scope = "models") -> NotAuthenticated:
    with pytest.raises(NotAuthenticated) as caught:
        who(keys, credential, scope, loopback=True)
    return caught.value


def test_a_key_is_an_id_and_256_bits_of_secret() -> None:
    assert f"pk_{KEY_ID}_{TOKEN[-52:]}" == TOKEN
    assert len(KEY_ID) == 16
    assert ADMIN_TOKEN.startswith("pa_")
    assert len(ADMIN_TOKEN) == 3 + 52


@pytest.mark.parametrize("credential", [None, "", "sk-anything", TOKEN])
def test_while_there_was_never_a_key_local_model_calls_are_served(credential: str | None) -> None:
    assert who(NO_KEYS, credential, loopback=True) is ANONYMOUS


@pytest.mark.parametrize("scope", [each for each in SCOPES if each != "models"])
def test_without_keys_nothing_but_model_calls_is_open(scope: Scope) -> None:
    assert refusal(NO_KEYS, None, scope).reason == KeyRefusal.MISSING


def test_without_keys_nothing_is_open_to_the_network() -> None:
    with pytest.raises(NotAuthenticated):
        who(NO_KEYS, "sk-anything")


def test_after_the_first_key_an_unknown_one_is_refused_from_this_machine_too() -> None:
    assert refusal(ring(), OTHER).reason == KeyRefusal.UNKNOWN


def test_revoking_the_only_key_opens_nothing() -> None:
    assert refusal(ring(revoked_at=NOW), None).reason == KeyRefusal.MISSING


@pytest.mark.parametrize(
    ("keys", "credential", "reason"),
    [
        (ring(), None, KeyRefusal.MISSING),
        (ring(), "", KeyRefusal.MISSING),
        (ring(), "sk-proj-1", KeyRefusal.MALFORMED),
        (ring(), "pk_", KeyRefusal.MALFORMED),
        (ring(), TOKEN + "a", KeyRefusal.MALFORMED),
        (ring(), TOKEN.upper(), KeyRefusal.MALFORMED),
        (ring(), TOKEN + "\n", KeyRefusal.MALFORMED),
        (ring(), "\ud800", KeyRefusal.MALFORMED),
        (ring(), OTHER, KeyRefusal.UNKNOWN),
        (ring(), TOKEN[:-1] + ("a" if TOKEN[-1] != "a" else "b"), KeyRefusal.UNKNOWN),
        (ring(), f"pk_{OTHER_ID}_{TOKEN[-52:]}", KeyRefusal.UNKNOWN),
        (ring(), f"pk_{KEY_ID}_{OTHER[-52:]}", KeyRefusal.UNKNOWN),
        (ring(revoked_at=NOW), TOKEN, KeyRefusal.REVOKED),
        (ring(expires_at=NOW), TOKEN, KeyRefusal.EXPIRED),
        (ring(revoked_at=NOW, expires_at=NOW), TOKEN, KeyRefusal.REVOKED),
        (ring(), token_digest(TOKEN).hex(), KeyRefusal.MALFORMED),
    ],
)
def test_callers_are_told_the_same_whatever_is_wrong(
    keys: Keys, credential: str | None, reason: KeyRefusal
) -> None:
    error = refusal(keys, credential)
    assert error.reason == reason
    assert str(error) == "access.not_authenticated: this needs a key that is valid here"
    assert (error.http_status, error.hint) == (401, NotAuthenticated().hint)


def test_the_reason_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(refusal(ring(), OTHER)))
    assert (error.reason, str(error)) == (KeyRefusal.UNKNOWN, str(NotAuthenticated()))


def test_a_revoked_key_with_a_wrong_secret_is_unknown() -> None:
    wrong = f"pk_{KEY_ID}_{OTHER[-52:]}"
    assert refusal(ring(revoked_at=NOW), wrong).reason == KeyRefusal.UNKNOWN


def test_a_key_is_taken_until_the_instant_it_expires() -> None:
    assert who(ring(expires_at=Instant(NOW + 1)), TOKEN).key_id == KEY_ID


def test_a_key_brings_its_terms() -> None:
    terms = ring(
        allowed_models=("a:b",),
        privacy="local",
        workspace="/w",
        role="auditor",
        budgets=(Limit(MicroUsd(5), "day"), Limit(MicroUsd(9), "total")),
    )
    assert who(terms, TOKEN) == Principal(
        KEY_ID,
        "ci",
        ("models",),
        ("a:b",),
        "local",
        "/w",
        role="auditor",
        caps=(
            Cap("key ci per day", MicroUsd(5), "day", "key"),
            Cap("key ci in total", MicroUsd(9), "total", "key"),
        ),
        tenant=KEY_ID,
    )
    assert who(ring(tenant="acme"), TOKEN).tenant == "acme"


@pytest.mark.parametrize("scope", [each for each in SCOPES if each != "models"])
def test_a_key_may_do_only_what_its_scopes_say(scope: Scope) -> None:
    with pytest.raises(NotPermitted, match=f"lacks the scope `{scope}`") as caught:
        who(ring(), TOKEN, scope, loopback=True)
    assert (caught.value.http_status, caught.value.code) == (403, "access.not_permitted")


@pytest.mark.parametrize("scope", SCOPES)
def test_an_admins_key_and_the_admin_token_may_do_everything(scope: Scope) -> None:
    caller = who(ring(scopes=("admin",)), TOKEN, scope)
    assert (caller.is_admin, caller.key_id) == (True, KEY_ID)
    for keys in (NO_KEYS, ring()):
        assert who(keys, ADMIN_TOKEN, scope) is ADMIN


def test_without_an_admin_token_nobody_is_admin() -> None:
    for given in ("", "pa_", None):
        with pytest.raises(NotAuthenticated):
            who(Keys({}, b""), given, "admin", loopback=True)


def test_a_stored_key_reads_back_and_a_damaged_one_is_named() -> None:
    key = a_key(allowed_models=("a:b",), budgets=(Limit(MicroUsd(5), "month"),))
    assert read_key(key_body(key)) == key
    with pytest.raises(IntegrityFailure, match="stored key"):
        read_key(b"{}")


def test_a_body_holds_no_secret_and_no_digest() -> None:
    assert TOKEN[-52:].encode() not in key_body(a_key())
    assert token_digest(TOKEN).hex().encode() not in key_body(a_key())


@pytest.mark.parametrize(
    ("authorization", "api_key", "credential"),
    [
        ("Bearer pk_1", None, "pk_1"),
        ("bearer  pk_1 ", "other", "pk_1"),
        ("Basic abc", "pk_2", "pk_2"),
        ("Bearer", "pk_2", "pk_2"),
        ("Bearer ", " pk_2 ", "pk_2"),
        (None, None, None),
        ("", "", None),
    ],
)
def test_a_credential_is_found_where_either_vendors_clients_put_it(
    authorization: str | None, api_key: str | None, credential: str | None
) -> None:
    assert credential_of(authorization, api_key) == credential


def test_privacy_may_only_be_tightened() -> None:
    assert tighten_privacy("auto", ["local", None]) == "local"
    assert tighten_privacy("cloud", [None, "local"]) == "local"
    assert tighten_privacy("local", ["auto", "cloud"]) == "local"
    assert tighten_privacy("auto", ["cloud", "auto"]) == "auto"


def test_a_key_is_live_revoked_or_expired() -> None:
    assert state_of(a_key(), None, NOW) == "live"
    assert state_of(a_key(expires_at=NOW), None, NOW) == "expired"
    assert state_of(a_key(expires_at=NOW), NOW, NOW) == "revoked"


def test_every_refusal_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/access.md").read_text(encoding="utf-8")
    for each in KeyRefusal:
        assert page.count(f"| `{each}` | {each.meaning} |") == 1
