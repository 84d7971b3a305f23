"""Time stamps of an authority (RFC 3161): the request, and the token that comes back, verified.

An authority signs that it saw a digest at a time. The operator cannot make such a token: it can
neither be dated back nor forged without the authority's key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509 import (
    Certificate,
    DuplicateExtension,
    ExtendedKeyUsage,
    ExtensionNotFound,
    InvalidVersion,
    load_der_x509_certificate,
)
from cryptography.x509.oid import ExtendedKeyUsageOID
from msgspec import Struct

from pointsman.errors import InputError
from pointsman.kernel.der import (
    BOOLEAN,
    INTEGER,
    NULL,
    OCTETS,
    OID,
    SEQUENCE,
    SET,
    TIME,
    Der,
    context_tag,
    read_der,
    write_der,
    write_integer,
    write_oid,
)
from pointsman.kernel.instant import SECOND, Instant, read_instant

QUERY_MEDIA: Final = "application/timestamp-query"
_SHA256: Final = "2.16.840.1.101.3.4.2.1"
_SIGNED_DATA: Final = write_oid("1.2.840.113549.1.7.2")
_STAMP_INFO: Final = write_oid("1.2.840.113549.1.9.16.1.4")
_CONTENT_TYPE: Final = write_oid("1.2.840.113549.1.9.3")
_MESSAGE_DIGEST: Final = write_oid("1.2.840.113549.1.9.4")

_HASHES: Final[Mapping[bytes, hashes.HashAlgorithm]] = MappingProxyType(
    {
        write_oid(_SHA256): hashes.SHA256(),
        write_oid("2.16.840.1.101.3.4.2.2"): hashes.SHA384(),
        write_oid("2.16.840.1.101.3.4.2.3"): hashes.SHA512(),
        write_oid("1.2.840.113549.1.1.11"): hashes.SHA256(),
        write_oid("1.2.840.113549.1.1.12"): hashes.SHA384(),
        write_oid("1.2.840.113549.1.1.13"): hashes.SHA512(),
        write_oid("1.2.840.10045.4.3.2"): hashes.SHA256(),
        write_oid("1.2.840.10045.4.3.3"): hashes.SHA384(),
        write_oid("1.2.840.10045.4.3.4"): hashes.SHA512(),
    }
)
"""The digests, and the signatures that name theirs. Older ones are refused."""


class TimeStamp(Struct, frozen=True):
    """A verified time stamp: when, by which authority, under which number of its own."""

    at: Instant
    authority: str
    serial: int


def write_query(data: bytes, nonce: int) -> bytes:
    """Write the request for a stamp over some bytes; the nonce ties the answer to it."""
    algorithm = write_der(SEQUENCE, write_oid(_SHA256), write_der(NULL))
    imprint = write_der(SEQUENCE, algorithm, write_der(OCTETS, hashlib.sha256(data).digest()))
    wants_certificate = write_der(BOOLEAN, b"\xff")
    return write_der(SEQUENCE, write_integer(1), imprint, write_integer(nonce), wants_certificate)


def token_of(answer: bytes) -> bytes:
    """Return the token of an authority's answer, or raise with its status."""
    try:
        status, *rest = read_der(answer).take(SEQUENCE).parts()
        code = status.take(SEQUENCE).parts()[0].integer()
    except (ValueError, IndexError) as error:
        raise InputError(f"the authority's answer cannot be read: {error}") from error
    if code not in {0, 1} or not rest:
        raise InputError(f"the authority gave no time stamp: status {code}")
    return rest[0].whole


def read_time_stamp(
    token: bytes, data: bytes, trusted: Sequence[Certificate], nonce: int | None = None
) -> TimeStamp:
    """Verify a token over some bytes, or raise saying what does not hold.

    It must be signed by a trusted certificate, or by one that a trusted certificate issued for
    time stamps, which was valid at the time it states.
    """
    try:
        return _read(token, data, trusted, nonce)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise InputError(f"the time stamp does not hold: {error}") from error
    except (InvalidVersion, DuplicateExtension, UnsupportedAlgorithm) as error:
        raise InputError("the time stamp does not hold: its certificate is broken") from error


def _read(
    token: bytes, data: bytes, trusted: Sequence[Certificate], nonce: int | None
) -> TimeStamp:
    kind, wrapped = read_der(token).take(SEQUENCE).parts()
    _need(kind.whole == _SIGNED_DATA, "it is no signed data")
    _, _, content, *rest = wrapped.take(context_tag(0)).parts()[0].take(SEQUENCE).parts()
    content_kind, content_value = content.take(SEQUENCE).parts()
    _need(content_kind.whole == _STAMP_INFO, "what it signs is no time stamp")
    info = content_value.take(context_tag(0)).parts()[0].take(OCTETS).content
    sets = [each for each in rest if each.tag == context_tag(0)]
    enclosed = [load_der_x509_certificate(part.whole) for each in sets for part in each.parts()]
    signers = rest[-1].take(SET).parts()
    _need(len(signers) == 1, "it has not one signer")
    at, serial = _read_info(info, data, nonce)
    signer = _signer([*trusted, *enclosed], trusted, at)
    return TimeStamp(at, _check_signature(signers[0], info, signer), serial)


def _read_info(info: bytes, data: bytes, nonce: int | None) -> tuple[Instant, int]:
    """Read the stamp over these bytes; return its time and its number."""
    version, _, imprint, serial, time, *rest = read_der(info).take(SEQUENCE).parts()
    _need(version.integer() == 1, "its version is unknown")
    algorithm, digest = imprint.take(SEQUENCE).parts()
    is_same = digest.take(OCTETS).content == hashlib.sha256(data).digest()
    is_sha256 = algorithm.take(SEQUENCE).parts()[0].whole == write_oid(_SHA256)
    _need(is_same and is_sha256, "it is about other bytes")
    nonces = [each.integer() for each in rest if each.tag == INTEGER]
    _need(nonce is None or nonces == [nonce], "it does not answer this request")
    return _instant(time.take(TIME).content.decode("ascii")), serial.integer()


def _instant(text: str) -> Instant:
    date, clock, fraction = text[:8], text[8:14], text[14:].removesuffix("Z")
    try:
        return read_instant(
            f"{date[:4]}-{date[4:6]}-{date[6:]}T{clock[:2]}:{clock[2:4]}:{clock[4:]}{fraction}Z"
        )
    except InputError as error:
        raise ValueError(f"`{text[:30]}` is no time") from error


def _signer(
    known: Sequence[Certificate], trusted: Sequence[Certificate], at: Instant
) -> list[Certificate]:
    """Return the certificates that may have signed, each trusted and valid at the time."""
    seconds = at // SECOND
    return [
        each
        for each in known
        if each.not_valid_before_utc.timestamp() <= seconds <= each.not_valid_after_utc.timestamp()
        and _is_for_stamps(each)
        and any(each == other or _is_issued(each, other) for other in trusted)
    ]


def _is_for_stamps(certificate: Certificate) -> bool:
    try:
        found = certificate.extensions.get_extension_for_class(ExtendedKeyUsage)
    except ExtensionNotFound:
        return False
    return [*found.value] == [ExtendedKeyUsageOID.TIME_STAMPING]


def _is_issued(certificate: Certificate, issuer: Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _check_signature(signer: Der, info: bytes, certificates: Sequence[Certificate]) -> str:
    """Verify the signature, and return whose it is."""
    _, _, digest, attributes, algorithm, signature, *_ = signer.take(SEQUENCE).parts()
    digest_oid = digest.take(SEQUENCE).parts()[0].take(OID).whole
    signing_oid = algorithm.take(SEQUENCE).parts()[0].take(OID).whole
    used = _HASHES[digest_oid]
    found = {
        key.whole: values.take(SET).parts()
        for key, values in (each.parts() for each in attributes.take(context_tag(0)).parts())
    }
    own = hashes.Hash(used)
    own.update(info)
    is_right = found[_MESSAGE_DIGEST][0].content == own.finalize()
    _need(is_right and found[_CONTENT_TYPE][0].whole == _STAMP_INFO, "it signs something else")
    # The signature is over the set itself, not over its place in the value of the signer.
    signed = write_der(SET, attributes.content)
    used = _HASHES.get(signing_oid, used)
    for each in certificates:
        if _verifies(each, signature.take(OCTETS).content, signed, used):
            return each.subject.rfc4514_string()[:200]
    raise ValueError("no trusted certificate signed it")


def _verifies(
    certificate: Certificate, signature: bytes, signed: bytes, used: hashes.HashAlgorithm
) -> bool:
    key = certificate.public_key()
    try:
        if isinstance(key, RSAPublicKey):
            key.verify(signature, signed, PKCS1v15(), used)
        elif isinstance(key, EllipticCurvePublicKey):
            key.verify(signature, signed, ECDSA(used))
        elif isinstance(key, Ed25519PublicKey):
            key.verify(signature, signed)
        else:
            return False
    except InvalidSignature:
        return False
    return True


def _need(is_so: bool, message: str) -> None:  # noqa: FBT001 - a condition, not a flag
    if not is_so:
        raise ValueError(message)
