"""National identity numbers: what a bare number must satisfy to be one, beyond its shape.

Each function takes the number in capitals without separators and says why it is one, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from pointsman.signals import checksums

Reason = str | None


_NO_NINO = frozenset(("BG", "GB", "KN", "NK", "NT", "TN", "ZZ"))


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


def nino(number: str) -> Reason:
    """British national insurance number: no check digit, but letters that are never issued."""
    first, second = number[0], number[1]
    # The tax office itself writes QQ in examples.
    is_issued = first not in "DFIQUV" and second not in "DFIOQUV" and number[:2] not in _NO_NINO
    if not (is_issued or number[:2] == "QQ") or number[8] not in "ABCD":
        return None
    if len(set(number[2:8])) == 1:
        return None
    return "2 letters of an issued prefix, 6 digits and a letter from A to D"


def uk_driver(number: str) -> Reason:
    """Driver number of Great Britain: surname, date of birth and initials, padded with nines."""
    month, day = int(number[6:8]), int(number[8:10])
    if not _is_day(month - 50 if month > 50 else month, day) or not number[13].isdigit():
        return None
    return "a surname, a date of birth and initials, as a driver number has them"


def pps(number: str) -> Reason:
    """Irish personal public service number."""
    return _holds(number, checksums.pps, "7 digits and a check letter that fits them")


def cpr(number: str) -> Reason:
    """Danish personal number: since 2007 without a check digit."""
    if not _is_day(int(number[2:4]), int(number[:2])) or len(set(number)) <= 2:
        return None
    return "a date of birth and 4 digits, by name"


def fodselsnummer(number: str) -> Reason:
    """Norwegian national number; a D number adds 4 to the first digit."""
    day = int(number[:2])
    if not _is_day(int(number[2:4]), day - 40 if day > 40 else day):
        return None
    return _holds(number, checksums.fodselsnummer, "11 digits with a date, both check digits hold")


def ahv(number: str) -> Reason:
    """Swiss insurance number."""
    if not number.startswith("756"):
        return None
    return _holds(number, checksums.ahv, "13 digits that start with 756, check digit holds")


def svnr(number: str) -> Reason:
    """Austrian insurance number; some months of birth are beyond 12."""
    if number[0] == "0" or not 1 <= int(number[4:6]) <= 31 or not 1 <= int(number[6:8]) <= 15:
        return None
    return _holds(number, checksums.svnr, "10 digits by name, with a date, check digit holds")


def nif(number: str) -> Reason:
    """Portuguese tax number of a person."""
    if number[0] not in "123":
        return None
    return _holds(number, checksums.nif, "9 digits by name, check digit holds")


def tfn(number: str) -> Reason:
    """Australian tax file number."""
    return _holds(number, checksums.tfn, "9 digits by name, check digit holds")


def rrn(number: str) -> Reason:
    """South Korean resident registration number."""
    if not _is_day(int(number[2:4]), int(number[4:6])) or number[6] not in "12345678":
        return None
    return _holds(number, checksums.rrn, "a date of birth and 7 digits, check digit holds")


def curp(number: str) -> Reason:
    """Mexican CURP."""
    if not _is_day(int(number[6:8]), int(number[8:10])) or number[10] not in "HMX":
        return None
    return _holds(number, checksums.curp, "letters, a date and a place, check digit holds")
