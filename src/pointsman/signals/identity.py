"""National identity numbers: what a bare number must satisfy to be one, beyond its shape.

Each function takes the number in capitals without separators and says why it is one, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from pointsman.signals import checksums

Reason = str | None


def _is_day(month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= 31


def _holds(number: str, check: Callable[[str], bool], how: str) -> Reason:
    # One or two digits repeated pass many checks and are what people type to fill a field.
    return how if len(set(number)) > 2 and check(number) else None


def steuer_id(number: str) -> Reason:
    """German tax number."""
    return _holds(number, checksums.steuer_id, "11 digits of which one repeats, check digit holds")


def nir(number: str) -> Reason:
    """French social security number."""
    month = int(number[3:5])
    if number[0] not in "1278" or not (1 <= month <= 12 or 20 <= month <= 42 or month >= 50):
        return None
    return _holds(number, checksums.nir, "15 characters with a month of birth, control key holds")


def dni(number: str) -> Reason:
    """Spanish DNI or NIE."""
    if not (number[0].isdigit() or number[0] in "XYZ"):
        return None
    return _holds(number, checksums.dni, "digits and a control letter that fits them")


def bsn(number: str) -> Reason:
    """Dutch citizen service number."""
    return _holds(number, checksums.bsn, "9 digits by name or official spelling, 11-proof holds")


def rijksregister(number: str) -> Reason:
    """Belgian national number; unknown dates are zeros, and bis numbers add 20 or 40 to a month."""
    if int(number[2:4]) % 20 > 12 or int(number[2:4]) > 52 or int(number[4:6]) > 31:
        return None
    return _holds(number, checksums.rijksregister, "11 digits with a date, mod 97 check holds")


def pesel(number: str) -> Reason:
    """Polish PESEL; the month tells the century."""
    if not _is_day(int(number[2:4]) % 20, int(number[4:6])):
        return None
    return _holds(number, checksums.pesel, "11 digits by name, with a date, check digit holds")


def personnummer(number: str) -> Reason:
    """Swedish personnummer, or samordningsnummer, whose day has 60 added."""
    short = number[-10:]
    day = int(short[4:6])
    if not _is_day(int(short[2:4]), day - 60 if day > 60 else day):
        return None
    if len(number) == 12 and number[:2] not in {"18", "19", "20"}:
        return None
    return _holds(short, checksums.luhn, "a date of birth and 4 digits, Luhn checksum holds")


def hetu(number: str) -> Reason:
    """Finnish identity code, still with its century sign."""
    if number[6] not in "-+ABCDEFUVWXY" or not _is_day(int(number[2:4]), int(number[:2])):
        return None
    return _holds(number, checksums.hetu, "a date, a century sign, control character fits")


def nhs(number: str) -> Reason:
    """NHS number of England, Wales or Northern Ireland."""
    if not (number[0] in "467" or "32" <= number[:2] <= "39"):
        return None
    return _holds(number, checksums.nhs, "10 digits of an issued range, mod 11 check holds")


def cpf(number: str) -> Reason:
    """Brazilian CPF."""
    return _holds(number, checksums.cpf, "11 digits, both check digits hold")


def aadhaar(number: str) -> Reason:
    """Indian Aadhaar."""
    if number[0] in "01" or number == number[::-1]:
        return None
    return _holds(number, checksums.verhoeff, "12 digits, Verhoeff checksum holds")


def sin(number: str) -> Reason:
    """Canadian social insurance number; those that start with 8 belong to businesses."""
    if number[0] == "8":
        return None
    return _holds(number, checksums.luhn, "9 digits by name or in dashes, Luhn checksum holds")


def resident_id(number: str) -> Reason:
    """Chinese resident identity number."""
    region, year = int(number[:2]), int(number[6:10])
    is_day = _is_day(int(number[10:12]), int(number[12:14]))
    if not (11 <= region <= 83 and 1900 <= year <= 2099 and is_day):
        return None
    return _holds(number, checksums.resident_id, "region, date and check character hold")


def ssn(number: str) -> Reason:
    """American social security number: it has no check digit, but ranges that were never issued."""
    area, middle, serial = number[:3], number[3:5], number[5:]
    if area in {"000", "666"} or area >= "900" or middle == "00" or serial == "0000":
        return None
    if number in {"078051120", "219099999", "123456789"} or len(set(number)) <= 2:
        return None
    return "3, 2 and 4 digits, none of them in a range that is never issued"


def codice_fiscale(number: str) -> Reason:
    """Italian tax code."""
    return _holds(number, checksums.codice_fiscale, "16 characters, control letter fits them")
