"""Check digits, written out: an upgraded dependency must never change a decision.

Every function takes the bare number, without blanks or dashes, and says whether its check holds.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_PPS_LETTERS = "WABCDEFGHIJKLMNOPQRSTUV"
_CURP_SIGNS = "0123456789ABCDEFGHIJKLMN\u00d1OPQRSTUVWXYZ"
_HETU_LETTERS = "0123456789ABCDEFHJKLMNPRSTUVWXY"
_RESIDENT_ENDS = "10X98765432"
_RESIDENT_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_FISCALE_ODD = (
    *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18),
    *(20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
)
_VERHOEFF_TURN = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)


def _dihedral(left: int, right: int) -> int:
    """Multiply in the group of the turns and flips of a pentagon."""
    if left < 5:
        return (left + right) % 5 + (5 if right >= 5 else 0)
    return (left - right) % 5 + (0 if right >= 5 else 5)


_VERHOEFF_PRODUCT = tuple(tuple(_dihedral(a, b) for b in range(10)) for a in range(10))


def _permutation(times: int) -> tuple[int, ...]:
    row = tuple(range(10))
    for _ in range(times):
        row = tuple(_VERHOEFF_TURN[digit] for digit in row)
    return row


_VERHOEFF_ROWS = tuple(_permutation(times) for times in range(8))
_LUHN_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def weighted_sum(digits: str, weights: Sequence[int]) -> int:
    """Sum up digits times weights."""
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def luhn(digits: str) -> bool:
    """Check payment cards, Canadian SIN and Swedish personnummer."""
    total = sum(map(int, digits[-1::-2])) + sum(_LUHN_DOUBLED[int(d)] for d in digits[-2::-2])
    return total % 10 == 0


def verhoeff(digits: str) -> bool:
    """Check an Indian Aadhaar."""
    found = 0
    for place, digit in enumerate(reversed(digits)):
        found = _VERHOEFF_PRODUCT[found][_VERHOEFF_ROWS[place % 8][int(digit)]]
    return found == 0


def mod97(iban: str) -> bool:
    """Check an IBAN in capitals, without blanks."""
    return int("".join(str(int(char, 36)) for char in iban[4:] + iban[:4])) % 97 == 1


def steuer_id(digits: str) -> bool:
    """Check a German tax number: ISO 7064 mod 11,10, and exactly one digit that repeats."""
    counts = sorted(digits[:10].count(str(digit)) for digit in range(10))
    if counts[-1] not in {2, 3} or counts[-2] > 1 or digits[0] == "0":
        return False
    found = 5
    for digit in digits[:10]:
        found = ((found or 10) * 2 % 11 + int(digit)) % 10
    return ((found or 10) * 2 % 11 + int(digits[10])) % 10 == 1


def nir(number: str) -> bool:
    """Check a French social security number; Corsica has letters."""
    plain = number.replace("2A", "19", 1) if number[5:7] == "2A" else number
    plain = plain.replace("2B", "18", 1) if number[5:7] == "2B" else plain
    return plain.isdigit() and 97 - int(plain[:13]) % 97 == int(plain[13:])


def dni(number: str) -> bool:
    """Check a Spanish DNI or NIE: eight digits, or X, Y, Z and seven, and a letter."""
    digits = number[:8].replace("X", "0").replace("Y", "1").replace("Z", "2")
    return digits.isdigit() and _DNI_LETTERS[int(digits) % 23] == number[8]


def codice_fiscale(number: str) -> bool:
    """Check the last letter of an Italian tax code."""
    odd = sum(
        _FISCALE_ODD[int(char, 36) - 10 if char.isalpha() else int(char)] for char in number[0:15:2]
    )
    even = sum(int(char, 36) - 10 if char.isalpha() else int(char) for char in number[1:15:2])
    return chr(ord("A") + (odd + even) % 26) == number[15]


def bsn(digits: str) -> bool:
    """Check a Dutch citizen number by the proof of eleven."""
    return (weighted_sum(digits[:8], range(9, 1, -1)) - int(digits[8])) % 11 == 0


def rijksregister(digits: str) -> bool:
    """Check a Belgian national number; for those born from 2000 on a 2 stands before it."""
    end = int(digits[9:])
    if end == 97 - int(digits[:9]) % 97:
        return True
    # No clock here: years up to 2049 are taken for possible.
    return digits[0] < "5" and end == 97 - int("2" + digits[:9]) % 97


def pesel(digits: str) -> bool:
    """Check a Polish PESEL."""
    return weighted_sum(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0


def hetu(number: str) -> bool:
    """Check a Finnish identity code."""
    return _HETU_LETTERS[int(number[:6] + number[7:10]) % 31] == number[10]


def nhs(digits: str) -> bool:
    """Check an NHS number."""
    return (weighted_sum(digits[:9], range(10, 1, -1)) + int(digits[9])) % 11 == 0


def cpf(digits: str) -> bool:
    """Check both check digits of a Brazilian CPF."""
    first = weighted_sum(digits[:9], range(10, 1, -1)) * 10 % 11 % 10
    second = weighted_sum(digits[:10], range(11, 1, -1)) * 10 % 11 % 10
    return digits[9:] == f"{first}{second}"


def resident_id(number: str) -> bool:
    """Check a Chinese resident identity number."""
    return _RESIDENT_ENDS[weighted_sum(number[:17], _RESIDENT_WEIGHTS) % 11] == number[17]


def fodselsnummer(digits: str) -> bool:
    """Check both check digits of a Norwegian national number."""
    first = -weighted_sum(digits[:9], (3, 7, 6, 1, 8, 9, 4, 5, 2)) % 11
    second = -weighted_sum(digits[:10], (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return digits[9:] == f"{first}{second}"


def ahv(digits: str) -> bool:
    """Check a Swiss insurance number, which is an EAN-13."""
    return weighted_sum(digits, (1, 3) * 6 + (1,)) % 10 == 0


def svnr(digits: str) -> bool:
    """Check an Austrian insurance number; its fourth digit is the check."""
    return weighted_sum(digits, (3, 7, 9, 0, 5, 8, 4, 2, 1, 6)) % 11 == int(digits[3])


def nif(digits: str) -> bool:
    """Check a Portuguese tax number."""
    return -weighted_sum(digits[:8], range(9, 1, -1)) % 11 % 10 == int(digits[8])


def tfn(digits: str) -> bool:
    """Check an Australian tax file number."""
    return weighted_sum(digits, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


def rrn(digits: str) -> bool:
    """Check a South Korean resident registration number."""
    total = weighted_sum(digits[:12], (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5))
    return (11 - total % 11) % 10 == int(digits[12])


def pps(number: str) -> bool:
    """Check an Irish PPS number: seven digits, a check letter, and perhaps another letter."""
    extra = ord(number[8]) - ord("A") + 1 if number[8:] and number[8] != "W" else 0
    return _PPS_LETTERS[(weighted_sum(number[:7], range(8, 1, -1)) + 9 * extra) % 23] == number[7]


def curp(number: str) -> bool:
    """Check a Mexican CURP."""
    total = sum(_CURP_SIGNS.index(char) * (18 - place) for place, char in enumerate(number[:17]))
    return -total % 10 == int(number[17])


def routing_number(digits: str) -> bool:
    """Check the routing number of an American bank."""
    if len(digits) != 9 or not digits.strip("0"):
        return False
    return weighted_sum(digits, (3, 7, 1) * 3) % 10 == 0


def crc_base62(body: str) -> bool:
    """Check a GitHub-style token's body: its last six characters are the CRC-32 of the rest."""
    left, digits = zlib.crc32(body[:-6].encode("ascii", "replace")), ""
    for _ in range(6):
        left, digit = divmod(left, 62)
        digits = BASE62[digit] + digits
    return digits == body[-6:]
