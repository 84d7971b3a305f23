"""Postal addresses: a street's name with a word for street, and a house number beside it."""

from __future__ import annotations

from collections.abc import Iterator

from pointsman.signals.hit import Found
from pointsman.signals.scanned import Scanned

_CAPITAL = r"(?:[A-Z]|\xc3[\x80-\x9e])"
_NAME = rf"{_CAPITAL}[A-Za-z'\x80-\xff\-]*\.?"
_HOUSE = r"\d{1,4}[A-Za-z]?(?:[-/]\d{1,4}[A-Za-z]?)?\b"

# Number first, as in English: 221B Baker Street, 1600 N. Example Ave
_ENGLISH = (
    rf"\b\d{{1,5}}[A-Za-z]?,? (?:(?:{_NAME}|\d{{1,3}}(?:st|nd|rd|th)) ){{1,4}}"
    r"(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Terrace|Crescent|Close"
    r"|Place|Pl|Square|Sq|Way|Parkway|Pkwy|Highway|Hwy|Circle|Mews|Gardens|Row|Alley)\b"
)
# Number first, then the word: 12 bis, rue de la Paix
_FRENCH = (
    r"\b\d{1,4}(?: ?(?:bis|ter|quater)\b)?,? "
    r"(?:[Rr]ue|[Aa]venue|[Aa]v\.|[Bb]oulevard|[Bb]d\.?|place|[Cc]hemin|[Ii]mpasse|[Qq]uai|route"
    r"|cours|[Aa]ll\xc3\xa9e|square|[Ff]aubourg) "
    rf"(?:(?:de|du|des|la|le|les|l'|d'|en|sur|et|aux?) ?){{0,3}}{_NAME}(?:[ -]{_NAME}){{0,3}}"
)
# One word that ends in the word for street, then the number: Lindenstraße 5, Keizersgracht 123
_JOINED = (
    rf"{_CAPITAL}[A-Za-z\x80-\xff\-]+(?:stra\xc3\x9fe|strasse|str\.|weg|platz|allee|gasse|ring"
    r"|damm|ufer|straat|laan|plein|gracht|baan|kade|singel|dijk|steeg|markt|pad|hof|steig|chaussee"
    r"|graben|berg) "
    rf"{_HOUSE}"
)
_GERMAN = (
    rf"(?:(?:{_NAME}|am|an der|auf der|zum|zur|An der|Auf der|Unter den) ){{1,3}}"
    r"(?:Stra\xc3\x9fe|Strasse|Str\.|Weg|Platz|Allee|Gasse|Ring|Damm|Ufer|Chaussee|Linden|Markt) "
    rf"{_HOUSE}"
)
# The word first, the number last: Calle de Alcalá, 45; Via Garibaldi 10
_SOUTHERN = (
    r"\b(?:Calle|C/|Avenida|Avda\.?|Plaza|Paseo|Camino|Carrera|Ronda|Traves\xc3\xada|Rua|Av\.|Via|Viale"
    r"|Piazza|Piazzale|Corso|Largo|Vicolo|Strada|Rambla|Pra\xc3\xa7a) "
    rf"(?:(?:de|del|della|delle|dei|degli|la|las|los|el|da|do|dos|di|d'|dell'|San|Santa) ?){{0,3}}"
    rf"{_NAME}(?: (?:(?:de|del|la|y|e|di|da|do) )?{_NAME}){{0,3}},? ?"
    rf"(?:n\.?[\xc2\xba\xb0o]*\.? ?|num\.? )?{_HOUSE}"
)
_ARTICLES = frozenset(("Der ", "Die ", "Das ", "Den ", "Dem ", "Des ", "Ein ", "Het "))
_ADDRESS = "|".join((_FRENCH, _ENGLISH, _SOUTHERN, _GERMAN, _JOINED))
PATTERNS = (_ADDRESS,)


def postal_addresses(text: Scanned) -> Iterator[Found]:
    """Find what reads like a street and a house number in six languages."""
    for start, end in text.spans(_ADDRESS):
        before = text.before(start, 1)
        if text.after(start, 4) in _ARTICLES:
            continue
        if not (before.isalnum() or before == "-" or before >= "\x80"):
            yield Found(
                "postal_address", start, end, "a street's name, a word for street, a number"
            )
