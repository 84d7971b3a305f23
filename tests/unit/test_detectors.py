"""What the detector finds, what it leaves alone, and how it settles overlaps."""

# ruff: noqa: RUF001 - letters that look alike are what some of these texts are about

import json
from pathlib import Path

import pytest

from pointsman.signals import checksums, contact, detectors
from pointsman.signals.detectors import DETECTOR, KINDS, detect
from pointsman.signals.redaction import redact
from pointsman.signals.scanned import Scanned
from pointsman.signals.variety import is_placeholder, is_varied


def found(text: str) -> list[tuple[str, str]]:
    return [(hit.kind, text[hit.start : hit.end]) for hit in detect(text)]


CORPUS = Path(__file__).parents[1] / "cases" / "detection"
CARD = "4111 1111 1111 1111"
IBAN = "DE89 3704 0044 0532 0130 00"


def test_the_detector_has_a_name_and_a_version() -> None:
    assert DETECTOR == "pointsman/2"


def test_kinds_are_named_once_and_described() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert all(kind.description and kind.group in {"pii", "secret", "medical"} for kind in KINDS)


def test_a_hit_says_why_without_quoting_the_text() -> None:
    (hit,) = detect(f"card {CARD}, thanks")
    assert (hit.kind, hit.group) == ("payment_card", "pii")
    assert hit.reason == "16 digits, Luhn checksum holds, prefix of Visa"


def test_offsets_count_characters_and_not_bytes() -> None:
    text = f"Grüße 😀 an jörg@example.org, {CARD}"
    assert found(text) == [("email", "jörg@example.org"), ("payment_card", CARD)]


def test_half_a_surrogate_pair_does_no_harm() -> None:
    assert found(f"\ud800 {CARD} \udfff") == [("payment_card", CARD)]


@pytest.mark.parametrize("blank", ["\u00a0", "\u202f", "\u2007"])
def test_blanks_of_web_pages_count_as_blanks(blank: str) -> None:
    spaced = CARD.replace(" ", blank)
    assert found(f"card {spaced}") == [("payment_card", spaced)]


def test_digits_of_full_width_count_as_digits() -> None:
    wide = "".join(chr(0xFF10 + int(char)) for char in "4111111111111111")
    assert found(wide) == [("payment_card", wide)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "postgres://app:s3cretX9@db.example.org/x",
            [("basic_auth_url", "postgres://app:s3cretX9@db.example.org")],
        ),
        ("card_token = 4111111111111111", [("payment_card", "4111111111111111")]),
        ('password = "jane@home.org!7"', [("password_assignment", "jane@home.org!7")]),
        (f"IBAN {IBAN} bis morgen", [("iban", IBAN)]),
    ],
)
def test_of_overlapping_hits_the_more_specific_stays(
    text: str, expected: list[tuple[str, str]]
) -> None:
    assert found(text) == expected


def test_a_name_near_a_number_settles_what_it_is() -> None:
    both = "39053344705"
    assert checksums.cpf(both)
    assert found(f"CPF {both}") == [("br_cpf", both)]
    assert ("br_cpf", both) not in found(f"order {both}")


def test_a_number_behind_one_that_fails_is_still_found() -> None:
    assert found(f"row 1234 {CARD}") == [("payment_card", CARD)]


@pytest.mark.parametrize(
    "text",
    [
        "0.4111111111111111",
        "x4111111111111111",
        "version 10.1.2.3",
        "127.0.0.1 and ::1",
        "550e8400-e29b-41d4-a716-446655440000",
        "git@github.com:org/repo.git",
        "password = os.environ['DB']",
        "token: ${TOKEN}",
        "-----BEGIN PRIVATE KEY----- in prose",
    ],
)
def test_what_only_looks_like_a_hit_is_none(text: str) -> None:
    assert found(text) == []


def test_private_networks_are_a_kind_of_their_own() -> None:
    (hit,) = detect("connect to 192.168.1.10")
    assert hit.kind == "private_ip_address"
    assert hit.reason == "an address of the private range 192.168/16"


def test_versions_in_a_list_are_no_addresses_but_neighbours_of_an_address_are() -> None:
    assert found("version 1.2.3.4 to 1.2.3.5") == []
    assert len(found("peers 203.0.113.5 and 203.0.113.6")) == 2


def test_a_key_that_is_cut_off_reaches_to_the_end() -> None:
    text = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + "MIIEabcdEFGH1234" * 4
    assert found(text) == [("private_key", text)]


def test_a_github_token_is_told_by_its_checksum() -> None:
    # GitHub's own published example, revoked from the start.
    body = "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ" + "0mLq17"
    assert checksums.crc_base62(body)
    assert found("ghp" + "_" + body) == [("github_token", "ghp_" + body)]
    assert found("ghp" + "_" + body[::-1]) == []


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (checksums.luhn, "4111111111111111", "4111111111111112"),
        (checksums.mod97, "DE89370400440532013000", "DE88370400440532013000"),
        (checksums.steuer_id, "36574261809", "36574261808"),
        (checksums.nir, "295109912611193", "295109912611194"),
        (checksums.dni, "12345678Z", "12345678A"),
        (checksums.dni, "X1234567L", "X1234567M"),
        (checksums.codice_fiscale, "RSSMRA85T10A562S", "RSSMRA85T10A562T"),
        (checksums.bsn, "111222333", "111222334"),
        (checksums.rijksregister, "85073003328", "85073003329"),
        (checksums.pesel, "44051401359", "44051401358"),
        (checksums.hetu, "131052-308T", "131052-308U"),
        (checksums.nhs, "9434765919", "9434765918"),
        (checksums.cpf, "39053344705", "39053344706"),
        (checksums.verhoeff, "234123412346", "234123412347"),
        (checksums.luhn, "046454286", "046454287"),
        (checksums.resident_id, "11010519491231002X", "110105194912310021"),
        (checksums.fodselsnummer, "15108695088", "15108695087"),
        (checksums.ahv, "7569217076985", "7569217076984"),
        (checksums.svnr, "1237010180", "1238010180"),
        (checksums.nif, "501964843", "501964842"),
        (checksums.tfn, "123456782", "123456783"),
        (checksums.rrn, "9710139019902", "9710139019903"),
        (checksums.pps, "6433435F", "6433435E"),
        (checksums.pps, "6433435OA", "6433435FB"),
        (checksums.curp, "BOXW310820HNERXN09", "BOXW310820HNERXN08"),
        (checksums.routing_number, "021000021", "021000020"),
    ],
)
def test_check_digits_tell_a_changed_digit(check, good: str, bad: str) -> None:
    assert check(good)
    assert not check(bad)


def test_entropy_is_compared_exactly() -> None:
    assert is_varied("abcd", 4)
    assert not is_varied("abcd", 5)
    assert is_varied("ab", 2)
    assert not is_varied("aab", 2)
    assert not is_varied("", 0)


@pytest.mark.parametrize(
    "text",
    ["changeme", "your-api-key-here", "<token>", "${VAR}", "xxxxx", "****", "0123456789", "aaaa"],
)
def test_stand_ins_are_known(text: str) -> None:
    assert is_placeholder(text)


@pytest.mark.parametrize("text", ["Winter2025!", "@dm1nPass!", "p]9Q#x2}z"])
def test_strange_passwords_are_no_stand_ins(text: str) -> None:
    assert not is_placeholder(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my passport number is 533401372", ("passport", "533401372")),
        ("driver's license no. D1234567", ("driving_licence", "D1234567")),
        ("point 1: MORGA657054SM9IJ", ("driving_licence", "MORGA657054SM9IJ")),
        ("born on 3 March 1985 in Leeds", ("date_of_birth", "3 March 1985")),
        ("am 14. Mai 1965 geboren", ("date_of_birth", "14. Mai 1965")),
        ('{"user_dob": "1985-03-12"}', ("date_of_birth", "1985-03-12")),
        (
            "sort code 20-00-00 account 55779911",
            ("bank_account", "20-00-00 account 55779911"),
        ),
        (
            "routing number 021000021, account 000123456789",
            ("bank_account", "021000021, account 000123456789"),
        ),
        ("patient ID 8837261", ("patient_number", "8837261")),
        ("coded as ICD-10: F32.1", ("diagnosis", "F32.1")),
        ("the key AKIAIOSFODNN7EXAMPLE", ("aws_access_key", "AKIAIOSFODNN7EXAMPLE")),
    ],
)
def test_words_before_a_value_and_issued_forms_name_it(
    text: str, expected: tuple[str, str]
) -> None:
    assert found(text) == [expected]


def test_medicine_is_a_group_of_its_own() -> None:
    hits = detect("diagnosed with epilepsy, on lamotrigine since the biopsy")
    assert [(hit.kind, hit.group) for hit in hits] == [
        ("diagnosis", "medical"),
        ("medication", "medical"),
        ("procedure", "medical"),
    ]


def test_a_word_with_a_second_meaning_needs_a_patient_beside_it() -> None:
    assert found("she had a stroke and is in hospital") == [("diagnosis", "stroke")]
    assert found("a stroke of luck, said the painter") == []


def test_a_routing_number_whose_check_fails_is_no_account() -> None:
    assert found("routing number 021000022, account 000123456789") == []


def test_the_line_a_machine_reads_is_told_by_its_check_digits() -> None:
    line = "L898902C36UTO7408122F1204159ZE184226B<<<<<10"
    assert found(f"P<UTOERIKSSON<<ANNA\n{line}") == [("passport", line)]
    assert found(f"P<UTOERIKSSON<<ANNA\n{line.replace('7408122', '7408123')}") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("to j\u200bane@\u2060example.org now", ("email", "j\u200bane@\u2060example.org")),
        ("\ufeffcard 4111\u00ad 1111 1111 1111", ("payment_card", "4111\u00ad 1111 1111 1111")),
        ("ｊane＠example．org", ("email", "ｊane＠example．org")),
        ("jаne@exаmple.org", ("email", "jаne@exаmple.org")),
        ("𝟒𝟏𝟏𝟏 𝟏𝟏𝟏𝟏 𝟏𝟏𝟏𝟏 𝟏𝟏𝟏𝟏", ("payment_card", "𝟒𝟏𝟏𝟏 𝟏𝟏𝟏𝟏 𝟏𝟏𝟏𝟏 𝟏𝟏𝟏𝟏")),
        ("bob\U000e0041@example.org x", ("email", "bob\U000e0041@example.org")),
        ("\u200b😀\U000e0041 a\u200b@b.de!", ("email", "a\u200b@b.de")),
    ],
)
def test_a_disguise_hides_nothing_and_lies_inside_the_hit(
    text: str, expected: tuple[str, str]
) -> None:
    assert found(text) == [expected]
    assert redact(text).count(f"[{expected[0]}]") == 1


def test_a_word_of_another_alphabet_is_left_as_it_is() -> None:
    text = "Сегодня мы встретимся в 10 у входа"
    assert Scanned(text).data == text.encode()


def test_one_look_finds_whatever_the_finders_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern that lets plain text off must let no hit off."""
    everything = [finder for search in detectors._SEARCHES for finder in search.finders]
    lines = (CORPUS / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    texts = ["".join(json.loads(line)["text"]) for line in lines]
    quick = [detect(text) for text in texts]
    monkeypatch.setattr(detectors, "_finders", lambda _text: [contact.emails, *everything])
    assert [detect(text) for text in texts] == quick
