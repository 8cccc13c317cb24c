"""Certificates and kubeconfigs of a control plane, as files that only their owner can read.

A control plane has two certificate authorities: one for the API, one for etcd, so that no user of the API can bypass it
and reach the store. Keys are elliptic (P-256) because they take no time to make; RSA is for programs that read nothing
else. A kubeconfig contains its certificates.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml

from kailab.cluster.controlplane.ports import LOOPBACK
from kailab.model.private_files import replace_file

if TYPE_CHECKING:
    from typing import TypeAlias

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    Key: TypeAlias = EllipticCurvePrivateKey | RSAPrivateKey

VALID_DAYS = 365  # as kubeadm's
_EARLIER = datetime.timedelta(hours=1)  # tolerance for clocks that differ


class Pair(NamedTuple):
    """PEM files: a certificate and its key."""

    certificate: Path
    key: Path

    @classmethod
    def named(cls, folder: Path, name: str) -> Pair:
        return cls(folder / f"{name}.crt", folder / f"{name}.key")


class Authority:
    """Signs certificates. Its own are ``<name>.crt`` and ``<name>.key`` in its folder."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    @property
    def certificate(self) -> Path:
        return self.pair.certificate

    @classmethod
    def made(cls, folder: Path, name: str, *, hosts: tuple[str, ...] = (), rsa: bool = False) -> Authority:
        """A new one. ``hosts``: its own host names; ``rsa``: its key is RSA."""
        key = _new_key(rsa)
        pair = Pair.named(folder, name)
        _write(pair, _certificate(_name(f"kailab {name}"), key, None, hosts=hosts, authority=True), key)
        return cls(pair)

    def issue_server(self, folder: Path, name: str, hosts: tuple[str, ...] = ("localhost",)) -> Pair:
        """A certificate for a server on the loopback address; it is valid for a client, too."""
        return self._issue(folder, name, _name(name), (LOOPBACK, *hosts))

    def issue_client(self, folder: Path, name: str, user: str, groups: tuple[str, ...] = ()) -> Pair:
        """A client certificate that names the user and its groups."""
        return self._issue(folder, name, _name(user, groups), ())

    def _issue(self, folder: Path, file: str, subject: x509.Name, hosts: tuple[str, ...]) -> Pair:
        key = _new_key()
        pair = Pair.named(folder, file)
        _write(pair, _certificate(subject, key, self, hosts=hosts), key)
        return pair

    def signer(self) -> tuple[x509.Certificate, Key]:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = load_pem_private_key(self.pair.key.read_bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey | RSAPrivateKey)
        return x509.load_pem_x509_certificate(self.pair.certificate.read_bytes()), key


def signing_key(folder: Path, name: str) -> Path:
    """A key that signs the tokens of service accounts."""
    path = folder / f"{name}.key"
    replace_file(path, _pem(_new_key()))
    return path


def _new_key(rsa: bool = False) -> Key:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

    return generate_private_key(65537, 2048) if rsa else ec.generate_private_key(ec.SECP256R1())


def _write(pair: Pair, certificate: x509.Certificate, key: Key) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    replace_file(pair.key, _pem(key))
    replace_file(pair.certificate, certificate.public_bytes(Encoding.PEM))


def _pem(key: Key) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    # The format that all Go programs read, old ones too.
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _name(user: str, groups: tuple[str, ...] = ()) -> x509.Name:
    """Kubernetes reads the user from the common name, and groups from organizations."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            x509.NameAttribute(NameOID.COMMON_NAME, user),
        ]
    )


def _certificate(
    subject: x509.Name,
    key: Key,
    issuer: Authority | None,
    hosts: tuple[str, ...] = (),
    authority: bool = False,
) -> x509.Certificate:
    """``issuer`` None: self-signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    above, signer = issuer.signer() if issuer else (None, key)
    now = datetime.datetime.now(datetime.UTC)
    # Client usage for servers, too: etcd's gateway calls etcd itself with the server's certificate.
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(above.subject if above else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_key_usage(authority), critical=True)
    )
    if not authority:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _key_usage(authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    # The constructor requires all of them.
    unused = (
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=authority, crl_sign=authority, **dict.fromkeys(unused, False)
    )


def _host(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


ADMIN_GROUP = "system:masters"
"""Has all rights, and is exempt from the API server's priority and fairness."""
CONTEXT = "kailab"


def write_kubeconfig(path: Path, server: str, authority: Authority, pair: Pair, user: str) -> None:
    """``server``: its URL. The file has mode 0600 and includes certificates and key."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [
            {
                "name": CONTEXT,
                "cluster": {"server": server, "certificate-authority-data": _encoded(authority.certificate)},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _encoded(pair.certificate),
                    "client-key-data": _encoded(pair.key),
                },
            }
        ],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": user}}],
    }
    # Certificates are in the file itself, so that it can be passed on or moved.
    replace_file(path, yaml.safe_dump(config, sort_keys=False).encode())


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
