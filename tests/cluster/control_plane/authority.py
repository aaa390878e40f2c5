"""Certificates of one control plane: an authority of its own, and what it issues."""

from __future__ import annotations

import base64
import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=30)
NAMES = ("localhost", "kubernetes.default.svc")
LOOPBACK = ipaddress.ip_address("127.0.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate and its key, as files; their folder is what a webhook server calls its `certDir`."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates that are good for serving on the loopback and for being a client."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("control-plane-of-tests")
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self.path = folder / "ca.crt"
        self.path.write_bytes(_pem(self._own_certificate()))

    @property
    def bundle(self) -> str:
        """In base64, as `caBundle` wants it."""
        return base64.b64encode(self.path.read_bytes()).decode()

    def issue(self, folder: Path, name: str, group: str | None = None) -> KeyPair:
        """A key pair as tls.crt and tls.key in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        loopback = x509.SubjectAlternativeName([*map(x509.DNSName, NAMES), x509.IPAddress(LOOPBACK)])
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        signer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier)
        certificate = (
            _begun(_name(name, group), self._name, key)
            .add_extension(loopback, critical=False)
            .add_extension(purposes, critical=False)
            .add_extension(signer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pair = KeyPair(certificate=folder / "tls.crt", key=folder / "tls.key")
        pair.certificate.write_bytes(_pem(certificate))
        write_key(pair.key, key)
        return pair

    def _own_certificate(self) -> x509.Certificate:
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
            decipher_only=False,
        )  # fmt: skip
        return (
            _begun(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(self._identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )


def write_signing_key(private: Path, public: Path) -> None:
    """A key by which tokens are signed, and its public half."""
    key = ec.generate_private_key(ec.SECP256R1())
    write_key(private, key)
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, spki))


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """A private key, for its owner's eyes."""
    path.touch(mode=0o600)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # a clock that is a little behind
        .not_valid_after(now + LIFETIME)
    )


def _name(common: str, group: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if group:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(attributes)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
