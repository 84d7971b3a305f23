"""Payment cards by issuer prefix and length, and IBANs by country and length."""

from __future__ import annotations

from collections.abc import Iterator

from pointsman.signals.checksums import luhn, mod97
from pointsman.signals.hit import Found
from pointsman.signals.scanned import Scanned

# (lowest prefix, highest prefix, lengths, issuer); prefixes of one row have the same length.
_ISSUERS: tuple[tuple[str, str, tuple[int, ...], str], ...] = (
    ("4", "4", (13, 16, 19), "Visa"),
    ("51", "55", (16,), "Mastercard"),
    ("2221", "2720", (16,), "Mastercard"),
    ("34", "34", (15,), "American Express"),
    ("37", "37", (15,), "American Express"),
    ("300", "305", (14,), "Diners Club"),
    ("36", "36", (14,), "Diners Club"),
    ("38", "39", (14,), "Diners Club"),
    ("6011", "6011", (16, 19), "Discover"),
    ("644", "649", (16, 19), "Discover"),
    ("65", "65", (16, 19), "Discover"),
    ("3528", "3589", (16, 19), "JCB"),
    ("62", "62", (16, 17, 18, 19), "UnionPay"),
    ("2200", "2204", (16,), "Mir"),
)

_BY_FIRST_DIGIT = {
    first: tuple(row for row in _ISSUERS if row[0][0] <= first <= row[1][0]) for first in "23456"
}

_IBAN_START = r"\b[A-Za-z]{2}\d{2}[ -]?[A-Za-z0-9]{4}"
PATTERNS = (_IBAN_START,)
_LONGEST_WRITTEN = 48
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FK FO GL NL SD",
        19: "MK SI",
        20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}


def card_reason(digits: str) -> str | None:
    """Say why a bare number is a payment card, or nothing when it is none."""
    for lowest, highest, lengths, issuer in _BY_FIRST_DIGIT.get(digits[0], ()):
        if len(digits) in lengths and lowest <= digits[: len(lowest)] <= highest and luhn(digits):
            return f"{len(digits)} digits, Luhn checksum holds, prefix of {issuer}"
    return None


def ibans(text: Scanned) -> Iterator[Found]:
    """Find IBANs, written in groups or in one."""
    for start, _ in text.spans(_IBAN_START):
        country = text.piece(start, start + 2).upper()
        length = _IBAN_LENGTHS.get(country)
        if length is None:
            continue
        written = _first_characters(text.after(start, _LONGEST_WRITTEN), length)
        number = written.replace(" ", "").replace("-", "").upper()
        if len(number) == length and _ends(text, start + len(written)) and mod97(number):
            reason = f"{length} characters as in {country}, mod 97 checksum holds"
            yield Found("iban", start, start + len(written), reason)


def _first_characters(piece: str, count: int) -> str:
    """Return the start of a piece up to its so-manieth letter or digit, or up to a strange sign."""
    seen = 0
    for place, char in enumerate(piece):
        if char.isascii() and char.isalnum():
            seen += 1
            if seen == count:
                return piece[: place + 1]
        elif char not in " -":
            return piece[:place]
    return piece


def _ends(text: Scanned, place: int) -> bool:
    following = text.after(place, 1)
    return not (following.isascii() and following.isalnum())
