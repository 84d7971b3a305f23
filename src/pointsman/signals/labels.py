"""Words near a number that say what it is, in the languages such numbers are written about."""

from __future__ import annotations

import re

from pointsman.signals.scanned import Scanned

BEFORE = 48
AFTER = 20

_WORDS = {
    "payment_card": r"card|karte|carte|carta|tarjeta|kreditkarte|visa|mastercard|amex|pan",
    "de_steuer_id": r"steuer.?id\w*|steuerliche|identifikationsnummer|idnr|tin|tax.?id",
    "fr_nir": r"nir|s\wcurit\w\w? sociale|s\xc3\xa9curit\xc3\xa9|insee|n\xc2\xb0 ss"
    r"|num\S{1,3}ro de s",
    "es_dni": r"dni|nie|nif|documento",
    "nl_bsn": r"bsn|burgerservicenummer|sofi.?nummer|citizen service",
    "be_rijksregister": r"rijksregister\w*|registre national|niss|insz|national register",
    "pl_pesel": r"pesel",
    "se_personnummer": r"personnummer|personnr|pnr|samordningsnummer",
    "fi_hetu": r"hetu|henkil\S{1,3}tunnus|personbeteckning",
    "uk_nhs": r"nhs|national health",
    "br_cpf": r"cpf",
    "in_aadhaar": r"aadh?a?ar|uidai|uid n",
    "ca_sin": r"sin|nas|social insurance|assurance sociale",
    "cn_resident_id": r"resident|shenfenzheng|identity card|id card"
    r"|\xe8\xba\xab\xe4\xbb\xbd\xe8\xaf\x81",
    "us_ssn": r"ssn|social security|social.?sec\w*|soc\. sec",
}
_LABELS = {
    kind: re.compile(rf"(?<![a-z])(?:{words})(?![a-z])", re.IGNORECASE)
    for kind, words in _WORDS.items()
}


def is_labelled(text: Scanned, kind: str, start: int, end: int) -> bool:
    """Say whether a word of the kind stands close before a place, or right after it."""
    label = _LABELS[kind]
    return bool(label.search(text.before(start, BEFORE)) or label.search(text.after(end, AFTER)))
