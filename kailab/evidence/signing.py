"""Signatures of runs: the holder of a key had this run in its present state.

Checksums show accidental changes. Whoever can write the files can also write new checksums, but not a signature. A signature is made with Ed25519 over
``run.json``, which has the digest of the run's SHA256SUMS, which covers every file. It is written as ``signature-<key>.json`` beside run.json; several keys can
sign.
"""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec

from kailab.errors import EvidenceError, InputError, os_errors_as
from kailab.evidence import canonical, store
from kailab.evidence import run as sums
from kailab.evidence.run import RUN, SIGNATURES, FileProblem
from kailab.model import decoding
from kailab.model.files import file_bytes
from kailab.model.optional_imports import require_extra
from kailab.model.private_files import open_private, replace_file

# Before the imports that need it, so that whoever lacks it is told what to install.
require_extra("signing", ("cryptography",), "signing evidence")

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # noqa: E402
from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey  # noqa: E402

FORMAT = 1
ALGORITHM = "ed25519"
_CONTEXT = b"kailab evidence run 1\n"
"""Prefix of the signed data, so that a signature made for another purpose is not valid for a run."""


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """``key``: the fingerprint of the public key. ``digest``: the digest of the signed run.json."""

    format: int = FORMAT
    algorithm: str = ALGORITHM
    key: str
    run: str
    digest: str
    signature: str


def generate_key(path: Path) -> Path:
    """Write a new private key (PEM, PKCS #8, readable only by its owner) and its public key; return the path of the public key. Raises InputError if a file
    exists or can't be written."""
    public = path.with_name(f"{path.name}.pub")
    for existing in (path, public):
        if existing.exists() or existing.is_symlink():
            raise InputError(f"{existing} exists already; keys are not overwritten")
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with os_errors_as(InputError, f"{path}: a key can't be written there"):
        # Created with its final mode, so that nobody else can open it, and exclusively, so that no file is overwritten.
        with open_private(path, "xb") as file:
            file.write(pem)
        public.write_bytes(_spki(key.public_key(), serialization.Encoding.PEM))
    return public


def sign_run(run: Path, key: Path) -> Path:
    """Sign a run that matches its checksums; return the signature's path. A second signature with the same key is identical. Raises EvidenceError if the run is
    damaged or did not finish, InputError if the key is not a private Ed25519 key."""
    private = _private(key)
    # Verified first, so that no damaged run is signed.
    problems = store.verify_evidence(run)
    if problems or not (run / RUN).exists():
        why = "; ".join(map(str, problems[:3])) or f"there is no {RUN}: only a finished run can be signed"
        raise EvidenceError(f"{run}: not signed: {why}")
    content = file_bytes(run / RUN)
    identity = fingerprint(private.public_key())
    signed = Signature(
        key=identity,
        run=run.name,
        digest=sums.digest(content),
        signature=base64.b64encode(private.sign(_CONTEXT + content)).decode(),
    )
    # The short name only serves to find the file. Verification uses the key.
    path = run / f"{SIGNATURES}{identity[:16]}.json"
    with os_errors_as(EvidenceError, f"{path}: the signature can't be written"):
        replace_file(path, canonical.pretty_json(signed))
    return path


def read_signatures(run: Path) -> list[tuple[str, Signature | None]]:
    """The signatures of a run with their file names; None for a signature that can't be read."""
    return [(path.name, _read(path)) for path in sorted(run.glob(f"{SIGNATURES}*.json"))]


def check_signature(run: Path, key: Path) -> list[FileProblem]:
    """The problems of a run's signature by a key (public or private); empty if it is valid. Other files are verified by ``store.verify_evidence``. Raises
    InputError if the key is not an Ed25519 key."""
    public = _public(key)
    identity = fingerprint(public)
    name = f"{SIGNATURES}{identity[:16]}.json"
    if not (run / name).exists():
        keys = [signature.key for _, signature in read_signatures(run) if signature is not None]
        by = f"it is signed by {', '.join(keys)}" if keys else "it is not signed"
        return [FileProblem("missing", name, f"no signature by {identity}; {by}")]
    signed = _read(run / name)
    if signed is None:
        return [FileProblem("damaged", name, "not a signature")]
    try:
        content = file_bytes(run / RUN)
        public.verify(base64.b64decode(signed.signature, validate=True), _CONTEXT + content)
    # ValueError: the signature is not base64.
    except (InvalidSignature, ValueError):
        return [FileProblem("changed", RUN, "not what was signed")]
    except OSError as error:
        return [FileProblem("missing", RUN, error.strerror or str(error))]
    return []


def fingerprint(key: Ed25519PublicKey) -> str:
    """SHA-256 of the public key in DER, in hex, as ``openssl pkey -pubin -outform DER | sha256sum`` prints it."""
    return sums.digest(_spki(key, serialization.Encoding.DER))


def key_fingerprint(key: Path) -> str:
    """The fingerprint of a key in a file. Raises InputError."""
    return fingerprint(_public(key))


def _spki(key: Ed25519PublicKey, encoding: serialization.Encoding) -> bytes:
    return key.public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)


def _private(path: Path) -> Ed25519PrivateKey:
    content = _content(path)
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except TypeError as error:
        raise InputError(f"{path}: the key has a password; expected a key without one") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(
            f"{path}: expected a private key of Ed25519 as PEM (kailab evidence keygen makes one)"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path}: expected a private key of Ed25519, not of another kind")
    return key


def _public(path: Path) -> Ed25519PublicKey:
    content = _content(path)
    # The private key is accepted too.
    if b"PRIVATE KEY" in content:
        return _private(path).public_key()
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path}: expected a public key of Ed25519 as PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path}: expected a public key of Ed25519, not of another kind")
    return key


def _content(path: Path) -> bytes:
    with os_errors_as(InputError, f"{path}: the key can't be read"):
        return file_bytes(path)


def _read(path: Path) -> Signature | None:
    try:
        content = file_bytes(path)
        signature = decoding.decode_json(content, Signature)
        # Only the canonical text is accepted: in another one, a JSON key may appear twice.
        return signature if content == canonical.pretty_json(signature) else None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
