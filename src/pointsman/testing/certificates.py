"""Certificates for tests: an authority of one's own, and servers it vouches for."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
_FAR_AHEAD = datetime(2120, 1, 1, tzinfo=UTC)

# Python 3.13 and newer want an authority to say what its key is for.
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class TestAuthority:
    """Signs certificates; a client that trusts `ca_file` trusts them."""

    __test__ = False  # pytest takes the name for a test

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test authority")])
        self._made = 0
        certificate = (
            self._builder(self._name, self._key, _FAR_AHEAD)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS, critical=True)
            .sign(self._key, SHA256())
        )
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(certificate.public_bytes(Encoding.PEM))

    def server(self, host: str = "127.0.0.1", *, is_expired: bool = False) -> ssl.SSLContext:
        """Return the TLS context of a server of this name."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")])
        until = _LONG_AGO + timedelta(days=1) if is_expired else _FAR_AHEAD
        certificate = (
            self._builder(name, key, until)
            .add_extension(x509.SubjectAlternativeName([_alternative(host)]), critical=False)
            .sign(self._key, SHA256())
        )
        self._made += 1
        path = self._folder / f"server-{self._made}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(private + certificate.public_bytes(Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _builder(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime
    ) -> x509.CertificateBuilder:
        public = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_LONG_AGO)
            .not_valid_after(until)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False
            )
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
        )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
