"""Payment cards and identity numbers: RE2 finds the ways they are written, check digits decide.

In a picture `#` is a digit, `A` a letter, and everything else stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pointsman.signals import identity
from pointsman.signals.cards import card_reason
from pointsman.signals.hit import Found
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
    "uk_nino": r"national insurance|nino|ni n\w+|ni#|insurance number",
    "driving_licence": r"driv\w+|dvla|licen[cs]e",
    "ie_pps": r"ppsn?|personal public service",
    "dk_cpr": r"cpr|personnummer|cpr-nummer",
    "no_fodselsnummer": r"f\S{1,2}dselsnummer\w*|fodselsnummer|fnr|personnummer|d-nummer",
    "ch_ahv": r"ahv\S*|avs|oasi",
    "at_svnr": r"svnr|sv-nr|sozialversicherungs\w*|versicherungsnummer",
    "pt_nif": r"nif|contribuinte|n\S{1,2}mero fiscal",
    "au_tfn": r"tfn|tax file",
    "mx_curp": r"curp",
    "kr_rrn": r"rrn|resident registration|\xec\xa3\xbc\xeb\xaf\xbc",
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


Judge = Callable[[str], str | None]


class Written(NamedTuple):
    """How a kind is written; the weak pictures count only with a label near them."""

    kind: str
    judge: Judge
    pictures: str
    weak: str = ""


_SPELLINGS = (
    Written(
        "payment_card",
        card_reason,
        "#### #### #### ####|####-####-####-####|#### ###### #####|####-######-#####"
        "|#### ###### ####|####-######-####|#### #### #### #### ###"
        "|##############|###############|################|###################",
        "#############|#################|##################",
    ),
    Written("de_steuer_id", identity.steuer_id, "## ### ### ###|###########"),
    Written(
        "fr_nir",
        identity.nir,
        "# ## ## ## ### ### ##|# ## ## #A ### ### ##|# ## ## ## ### ###-##|############# ##"
        "|#.##.##.##.###.###.##|###############|######A########",
    ),
    Written(
        "es_dni",
        identity.dni,
        "########A|########-A|######## A|##.###.###-A|##.###.###A"
        "|A#######A|A-#######-A|A-#######A|A#######-A",
    ),
    Written("nl_bsn", identity.bsn, "####.##.###", "#########|### ### ###|#### ## ###|###-###-###"),
    Written(
        "be_rijksregister",
        identity.rijksregister,
        "##.##.##-###.##|##.##.##.###.##|######-###-##|###########",
        "## ## ## ### ##|###### ### ##|## ## ## ###-##",
    ),
    Written("pl_pesel", identity.pesel, "", "###########"),
    Written(
        "se_personnummer",
        identity.personnummer,
        "######-####|########-####|######+####|########+####",
        "##########|############",
    ),
    Written(
        "fi_hetu",
        identity.hetu,
        "######-###A|######-####|######+###A|######+####|######A###A|######A####",
    ),
    Written("uk_nhs", identity.nhs, "### ### ####", "##########|###-###-####"),
    Written("br_cpf", identity.cpf, "###.###.###-##", "###########|### ### ### ##|#########-##"),
    Written("in_aadhaar", identity.aadhaar, "#### #### ####|####-####-####", "############"),
    Written("ca_sin", identity.sin, "###-###-###", "#########|### ### ###"),
    Written("cn_resident_id", identity.resident_id, "##################|#################A"),
    Written("uk_nino", identity.nino, "AA######A|AA ## ## ## A|AA-##-##-##-A"),
    Written(
        "driving_licence",
        identity.uk_driver,
        "AAAAA######AA#AA|AAAA#######AA#AA|AAA########AA#AA|AA#########AA#AA"
        "|AAAAA######A##AA|AAAA#######A##AA|AAA########A##AA",
    ),
    Written("ie_pps", identity.pps, "#######AA", "#######A"),
    Written("dk_cpr", identity.cpr, "", "######-####|##########|###### ####"),
    Written("no_fodselsnummer", identity.fodselsnummer, "###### #####", "###########"),
    Written("ch_ahv", identity.ahv, "###.####.####.##|### #### #### ##", "#############"),
    Written("at_svnr", identity.svnr, "", "#### ######|##########|####-######"),
    Written("pt_nif", identity.nif, "", "#########|### ### ###"),
    Written("au_tfn", identity.tfn, "", "#########|### ### ###|###-###-###"),
    Written("kr_rrn", identity.rrn, "######-#######", "#############"),
    Written("mx_curp", identity.curp, "AAAA######AAAAAA##|AAAA######AAAAAAA#"),
    Written("us_ssn", identity.ssn, "###-##-####", "### ## ####|#########|###.##.####"),
)


class _Reading(NamedTuple):
    kind: str
    judge: Judge
    is_weak: bool


def _readings() -> dict[str, list[_Reading]]:
    found: dict[str, list[_Reading]] = {}
    for each in _SPELLINGS:
        for pictures, is_weak in ((each.pictures, False), (each.weak, True)):
            for picture in filter(None, pictures.split("|")):
                found.setdefault(picture, []).append(_Reading(each.kind, each.judge, is_weak))
    return found


def _pattern(picture: str) -> str:
    runs = re.findall(r"#+|A+|.", picture)
    signs = {"#": r"\d{%d}", "A": "[A-Za-z]{%d}"}
    return "".join(signs[run[0]] % len(run) if run[0] in signs else re.escape(run) for run in runs)


_READINGS = _readings()
# The longest first: RE2 takes the first alternative that matches.
_NUMBER = (
    r"\b(?:"
    + "|".join(_pattern(each) for each in sorted(_READINGS, key=lambda p: (-len(p), p)))
    + r")\b"
)
_PICTURED = str.maketrans("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", "#" * 10 + "A" * 26)
_BARE = str.maketrans("", "", " .-+")
_FIRST_RUN = re.compile(r"[0-9A-Za-z]+")
_PART_OF_MORE = re.compile(r"(?:[0-9][.:/-]|[+$\xa3]|\xac ?)\Z")
_JOINED = re.compile(r"[A-Za-z]-\Z")
_GOES_ON = re.compile(r"[.:/][0-9]|-[0-9A-Za-z]|[ ]?(?:%|\xe2\x82\xac)")

_CODICE_FISCALE = (
    r"\b[A-Za-z]{6}[0-9L-NP-Vl-np-v]{2}[A-EHLMPR-Ta-ehlmpr-t][0-9L-NP-Vl-np-v]{2}"
    r"[A-Za-z][0-9L-NP-Vl-np-v]{3}[A-Za-z]\b"
)

PATTERNS = (_NUMBER, _CODICE_FISCALE)


def numbers(text: Scanned) -> Iterator[Found]:
    """Find payment cards and identity numbers."""
    place = 0
    while (span := text.first(_NUMBER, place)) is not None:
        start, end = span
        found = [] if _is_part(text, start, end) else list(_read(text, start, end))
        yield from found
        # What failed may hide a number that starts at its second group.
        run = _FIRST_RUN.match(text.piece(start, end))
        place = end if found or run is None else start + run.end()


def _is_part(text: Scanned, start: int, end: int) -> bool:
    """Say whether a number is the middle of a decimal, an amount, an id or a longer number."""
    return bool(_PART_OF_MORE.search(text.before(start, 2)) or _GOES_ON.match(text.after(end, 4)))


def _read(text: Scanned, start: int, end: int) -> Iterator[Found]:
    piece = text.piece(start, end)
    capitals = piece.upper()
    bare = capitals.translate(_BARE)
    is_doubtful = piece != capitals or _JOINED.search(text.before(start, 2)) is not None
    readings = _READINGS.get(capitals.translate(_PICTURED), ())
    said = [(each, each.judge(capitals if each.kind == "fi_hetu" else bare)) for each in readings]
    if not any(reason for _, reason in said):
        return
    # A name near it settles what a number is meant to be, also when its check then fails.
    named = {each.kind for each in readings if is_labelled(text, each.kind, start, end)}
    for each, reason in said:
        is_sure = each.kind in named or not (named or each.is_weak or is_doubtful)
        if reason is not None and is_sure:
            yield Found(each.kind, start, end, reason, each.kind in named)


def codici_fiscali(text: Scanned) -> Iterator[Found]:
    """Find Italian tax codes, in which letters may stand for digits."""
    for start, end in text.spans(_CODICE_FISCALE):
        reason = identity.codice_fiscale(text.piece(start, end).upper())
        if reason is not None:
            yield Found("it_codice_fiscale", start, end, reason)
