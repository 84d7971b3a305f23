"""Personal data told by the words before it: documents, dates of birth, bank accounts, patients.

Each reader looks at a piece of fixed size beside the words: the time grows with the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pointsman.signals.checksums import routing_number
from pointsman.signals.hit import Found
from pointsman.signals.scanned import Scanned


class Word(NamedTuple):
    """Where the words stand that call a reader, in bytes."""

    start: int
    end: int


Reader = Callable[[Scanned, Word], Iterator[Found]]

_BEHIND = 72
_BEFORE = 40
_LINK = (
    r"[ \t]*(?:n\xc2[\xb0\xba]|(?i:number|numbers|no|num|nr|n|nummer|num\xc3\xa9ro|numero"
    r"|n\xc3\xbamero|id|code|details|is|was|reads|ist|lautet|est|es|\xc3\xa8|of|on|the|with|am"
    r"|le|il|el|op|em|den|um)\b"
    r"|\([A-Za-z /.-]{1,16}\)|[ \t.:=#\"'`(\[,>-]){0,8}"
)
_DOCUMENT = re.compile(rf"{_LINK}([A-Za-z0-9]{{1,16}}(?:[ -][A-Za-z0-9]{{1,16}}){{0,5}})")
# A number in the form of a passport's may stand a few words further on.
_PASSPORT = re.compile(
    r"[^.!?\n0-9]{0,32}?(?<![A-Za-z0-9])"
    r"([A-Z]{1,2}[0-9]{6,8}|[0-9]{9}|[CFGHJKL][0-9]{2}[0-9A-Z]{6})(?![0-9A-Za-z-])"
)
_DIGITS = re.compile(rf"{_LINK}([0-9](?:[ -]?[0-9]){{5,19}})(?![0-9A-Za-z])")
_PATIENT = re.compile(rf"{_LINK}([A-Za-z]{{0,4}}-?[0-9](?:[ -]?[0-9]){{4,12}})(?![0-9A-Za-z])")

_MONTHS = (
    r"jan(?:uary|uar|vier|uari)?|feb(?:ruary|ruar|ruari)?|f\xc3\xa9v(?:rier)?|mar(?:ch|s|zo|et)?"
    r"|mar\xc3\xa7o|m\xc3\xa4rz|maart|apr(?:il|ile)?|avr(?:il)?|abr(?:il)?|may|mai|mayo|maggio|maio|mei"
    r"|june?|juni|juin|junio|giugno|junho|july?|juli|juillet|julio|luglio|julho"
    r"|aug(?:ust|ustus)?|ao\xc3\xbbt|agosto|sep(?:t|tember|tembre|tiembre)?|settembre|setembro"
    r"|oct(?:ober|obre|ubre)?|okt(?:ober)?|ottobre|outubro|nov(?:ember|embre|iembre|embro)?"
    r"|dec(?:ember)?|dez(?:ember|embro)?|d\xc3\xa9c(?:embre)?|dic(?:iembre|embre)?"
    r"|enero|febrero|fevereiro|gennaio|febbraio|janeiro|januar"
)
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])"
_MONTH = r"(?:0?[1-9]|1[0-2])"
_YEAR = r"(?:(?:19|20)[0-9]{2})"
_WRITTEN_DATE = (
    r"(?i:("
    rf"{_YEAR}([-/.]){_MONTH}\2{_DAY}"
    rf"|{_DAY}([-/. ]){_MONTH}\3(?:{_YEAR}|[0-9]{{2}})"
    rf"|{_MONTH}([-/]){_DAY}\4(?:{_YEAR}|[0-9]{{2}})"
    rf"|{_DAY}(?:st|nd|rd|th|er|\.|\xc2\xba)? ?(?:of |de |- ?)?"
    rf"(?:{_MONTHS})\.?,?(?: de| del)?[ -]{_YEAR}"
    rf"|(?:{_MONTHS})\.? {_DAY}(?:st|nd|rd|th)?,? {_YEAR}"
    r"))(?![0-9A-Za-z])"
)
_DATE = re.compile(f"{_LINK}{_WRITTEN_DATE}")
_DATE_BEFORE = re.compile(rf"(?<![0-9A-Za-z]){_WRITTEN_DATE} \Z")
_SORT_CODE = re.compile(rf"{_LINK}([0-9]{{2}}[ -]?[0-9]{{2}}[ -]?[0-9]{{2}})(?![0-9])")
_SORT_CODE_BEFORE = re.compile(r"(?<![0-9])([0-9]{2}[ -]?[0-9]{2}[ -]?[0-9]{2}) {0,2}\Z")
_ACCOUNT_AFTER = re.compile(
    r"(?:[^0-9\n]{1,40}|[^0-9\n]{0,8}\n[^0-9\n]{1,32})([0-9]{4} ?[0-9]{4})(?![0-9])"
)
_ACCOUNT_BEFORE = re.compile(r"(?<![0-9])([0-9]{4} ?[0-9]{4})[^0-9]{1,32}\Z")
_LONG_ACCOUNT = re.compile(r"[^0-9]{1,40}([0-9]{6,17})(?![0-9])")

_FEWEST_DIGITS = 5
_SHORTEST, _LONGEST = 6, 24
_ICD = re.compile(rf"{_LINK}([A-TV-Za-tv-z][0-9][0-9A-Z](?:\.[0-9A-Z]{{1,4}})?)(?![0-9A-Za-z])")

_MACHINE_LINE = r"\b[A-Z0-9<]{9}[0-9][A-Z<]{3}[0-9]{7}[MFX<][0-9]{7}[A-Z0-9<]{14}[0-9<][0-9]"
PATTERNS = (_MACHINE_LINE,)
_MACHINE_WEIGHTS = (7, 3, 1)


def passport(text: Scanned, word: Word) -> Iterator[Found]:
    """Find the number behind a word for passports."""
    reason = "a document's number after a word for passports"
    named = tuple(_document(text, word, "passport", reason))
    yield from named
    further = None if named else _PASSPORT.match(text.after(word.end, _BEHIND))
    if further is not None:
        first, last = word.end + further.start(1), word.end + further.end(1)
        yield Found("passport", first, last, reason, is_labelled=True)


def driving_licence(text: Scanned, word: Word) -> Iterator[Found]:
    """Find the number behind a word for driving licences."""
    reason = "a document's number after a word for driving licences"
    yield from _document(text, word, "driving_licence", reason)


def _document(text: Scanned, word: Word, kind: str, reason: str) -> Iterator[Found]:
    found = _DOCUMENT.match(text.after(word.end, _BEHIND))
    if found is None:
        return
    # A group without a digit is a word that follows, not a part of the number.
    groups = re.findall(r"[ -]?[A-Za-z0-9]+", found[1])
    written = ""
    for group in groups:
        if not any(map(str.isdigit, group)) and (written or group.islower() or len(group) > 1):
            break
        written += group
    digits = sum(map(str.isdigit, written))
    held = sum(map(str.isalnum, written))
    if digits >= _FEWEST_DIGITS and 2 * digits >= held and _SHORTEST <= held <= _LONGEST:
        first = word.end + found.start(1)
        yield Found(kind, first, first + len(written), reason, is_labelled=True)


def date_of_birth(text: Scanned, word: Word) -> Iterator[Found]:
    """Find the date behind words for a birth."""
    reason = "a date beside words for a birth"
    found = _DATE.match(text.after(word.end, _BEHIND))
    if found is not None:
        first, last = word.end + found.start(1), word.end + found.end(1)
        yield Found("date_of_birth", first, last, reason, is_labelled=True)
        return
    # German has the word last: am 14. Mai 1965 geboren.
    before = text.before(word.start, _BEFORE)
    found = _DATE_BEFORE.search(before)
    if found is not None:
        first = word.start - len(before)
        place = (first + found.start(1), first + found.end(1))
        yield Found("date_of_birth", *place, reason, is_labelled=True)


def sort_code(text: Scanned, word: Word) -> Iterator[Found]:
    """Find a British sort code with the account beside it."""
    reason = "a sort code and an account of 8 digits beside it"
    before = text.before(word.start, _BEHIND)
    opening = word.start - len(before)
    found = _SORT_CODE.match(text.after(word.end, _BEHIND))
    if found is None:
        found = _SORT_CODE_BEFORE.search(before)
        first, last = opening + (found.start(1) if found else 0), word.end
    else:
        first, last = word.end + found.start(1), word.end + found.end(1)
    after = _ACCOUNT_AFTER.match(text.after(last, _BEHIND))
    account = _ACCOUNT_BEFORE.search(before)
    if found is not None and after is not None:
        yield Found("bank_account", first, last + after.end(1), reason, is_labelled=True)
    elif found is not None and account is not None and first >= word.end:
        yield Found("bank_account", opening + account.start(1), last, reason, is_labelled=True)


def routing(text: Scanned, word: Word) -> Iterator[Found]:
    """Find an American routing number with the account behind it."""
    found = _DIGITS.match(text.after(word.end, _BEHIND))
    if found is None or not found[1].isdigit() or not routing_number(found[1]):
        return
    last = word.end + found.end(1)
    account = _LONG_ACCOUNT.match(text.after(last, _BEHIND))
    if account is not None:
        reason = "a routing number whose check digit holds, and an account beside it"
        first = word.end + found.start(1)
        yield Found("bank_account", first, last + account.end(1), reason, is_labelled=True)


def bank_account(text: Scanned, word: Word) -> Iterator[Found]:
    """Find the number behind words for a bank account."""
    found = _DIGITS.match(text.after(word.end, _BEHIND))
    if found is not None:
        first, last = word.end + found.start(1), word.end + found.end(1)
        yield Found(
            "bank_account", first, last, "digits after words for a bank account", is_labelled=True
        )


def patient_number(text: Scanned, word: Word) -> Iterator[Found]:
    """Find the number behind words for a patient or an insured person."""
    found = _PATIENT.match(text.after(word.end, _BEHIND))
    if found is not None:
        first, last = word.end + found.start(1), word.end + found.end(1)
        reason = "a number after words for a patient or an insurance of health"
        yield Found("patient_number", first, last, reason, is_labelled=True)


def diagnosis_code(text: Scanned, word: Word) -> Iterator[Found]:
    """Find the code behind the name of the classification of diseases."""
    found = _ICD.match(text.after(word.end, _BEHIND))
    if found is not None:
        first, last = word.end + found.start(1), word.end + found.end(1)
        yield Found("diagnosis", first, last, "a code of ICD-10 beside its name", is_labelled=True)


LABELS: tuple[tuple[Reader, str], ...] = (
    (
        passport,
        (
            "passport|passports|passport number|passport no|passport num|passport id"
            "|passport_no|passport_number|passportnumber|reisepass|reisepassnummer|passnummer"
            "|pass-nr|passnr|reisepass-nr|passeport|pasaporte|passaporto|paspoort"
            "|paspoortnummer|passaporte|paszport|passnummer"
        ),
    ),
    (
        driving_licence,
        (
            "driving licence|driving license|driver licence|driver license|driver's licence"
            "|driver's license|drivers licence|drivers license|driver\u2019s license"
            "|driver\u2019s licence|driving_licence|driving_license|driver_license"
            "|drivers_license|licence number|licence no|dl|driver number|dvla"
            "|f\u00fchrerschein|f\u00fchrerscheinnummer|fuehrerschein|fahrerlaubnis"
            "|permis de conduire|permiso de conducir|carnet de conducir|licencia de conducir"
            "|patente di guida|patente|rijbewijs|rijbewijsnummer|carta de condu\u00e7\u00e3o"
            "|cnh|prawo jazdy|k\u00f6rkort"
        ),
    ),
    (
        date_of_birth,
        (
            "date of birth|date-of-birth|dateofbirth|date_of_birth|birth date|birthdate"
            "|birth_date|birthday|dob|d.o.b.|born|geboren|geburtsdatum|geburtstag|geb."
            "|date de naissance|n\u00e9 le|n\u00e9e le|n\u00e9(e) le|fecha de nacimiento"
            "|nacido el|nacida el|naci\u00f3 el|data di nascita|nato il|nata il|geboortedatum"
            "|data de nascimento|nascido em|nascida em|f\u00f6delsedatum|f\u00f6dd"
            "|data urodzenia|urodzony|urodzona"
        ),
    ),
    (sort_code, "sort code|sort-code|sortcode|sort_code"),
    (routing, "routing number|routing no|routing|aba number|aba|rtn|routing_number"),
    (
        bank_account,
        (
            "bank account|bank account number|bank account no|bank_account|kontonummer"
            "|konto-nr|kto-nr|kontonr|num\u00e9ro de compte|n\u00famero de cuenta"
            "|numero di conto|rekeningnummer|n\u00famero da conta|checking account"
            "|savings account|current account"
        ),
    ),
    (
        patient_number,
        (
            "patient id|patient number|patient no|patient_id|patient-id|patientennummer|mrn"
            "|medical record number|medical record no|medical record|versichertennummer"
            "|krankenversichertennummer|krankenversicherungsnummer|num\u00e9ro de patient"
            "|health insurance number|health insurance id|member id|medicare number"
            "|medicaid id|nhs patient|n\u00famero de paciente"
        ),
    ),
    (diagnosis_code, "icd-10|icd10|icd-10-cm|icd-10-gm|icd code|icd-10 code|icd"),
)
"""Each reader with the words that call it, in lower case."""


def machine_lines(text: Scanned) -> Iterator[Found]:
    """Find the second line of a passport's machine-readable zone; its check digits are checked."""
    if b"<" not in text.data:
        return
    for start, end in text.spans(_MACHINE_LINE):
        line = text.piece(start, end)
        fields = ((line[:9], line[9]), (line[13:19], line[19]), (line[21:27], line[27]))
        if all(_machine_digit(field) == digit for field, digit in fields):
            reason = "the machine-readable line of a passport, its check digits hold"
            yield Found("passport", start, end, reason)


def _machine_digit(field: str) -> str:
    total = sum(
        int(char, 36) * _MACHINE_WEIGHTS[place % 3]
        for place, char in enumerate(field)
        if char != "<"
    )
    return str(total % 10)
