"""A signature over a run: who held this key had this run before them as it is now.

Checksums show what was changed by accident. Whoever can write the files can write the sums anew; a signature they can't. It is made
with Ed25519 over ``run.json``, which holds the digest of the run's SHA256SUMS, which sums up every file. It stands beside it as
``signature-<key>.json``, by as many keys as sign.
"""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from kailab.errors import EvidenceError, InputError
from kailab.evidence import canonical, store
from kailab.evidence import run as sums
from kailab.evidence.run import RUN, SIGNATURES, FileProblem
from kailab.model import typed
from kailab.model.files import file_bytes
from kailab.model.private_files import open_file, replace_file

FORMAT = 1
ALGORITHM = "ed25519"
_CONTEXT = b"kailab evidence run 1\n"
"""Goes before what is signed, so that no signature for another purpose passes as one of a run."""


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """``key``: the digest of the public key, by which it is known. ``digest``: of the run.json that was signed."""

    format: int = FORMAT
    algorithm: str = ALGORITHM
    key: str
    run: str
    digest: str
    signature: str


def generate_key(path: Path) -> Path:
    """Write a new private key (PEM, PKCS #8, readable by its owner alone), and beside it the public one, which is returned. Raises
    InputError where one of them is there already or can't be written."""
    public = path.with_name(f"{path.name}.pub")
    for there in (path, public):
        if there.exists() or there.is_symlink():
            raise InputError(f"{there} is there already; a key is not overwritten")
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        # Made with its final rights: there is no moment in which others could open it. A file that came meanwhile is not taken.
        with open_file(path, "xb") as file:
            file.write(pem)
        public.write_bytes(_spki(key.public_key(), serialization.Encoding.PEM))
    except OSError as error:
        raise InputError(f"{path}: a key can't be written there: {error.strerror or error}") from error
    return public


def sign_run(run: Path, key: Path) -> Path:
    """Sign a run, if it is what was written; the file with the signature. Signed again with the same key it is the same. Raises
    EvidenceError for a run that is damaged or did not finish, InputError for what is no private key of Ed25519."""
    private = _private(key)
    # The signature says that this is the run. One over files that don't agree with their sums would say so of a damaged
    # one.
    problems = store.verify_evidence(run)
    if problems or not (run / RUN).exists():
        told = "; ".join(map(str, problems[:3])) or f"there is no {RUN}: only a whole run can be signed"
        raise EvidenceError(f"{run}: not signed: {told}")
    content = file_bytes(run / RUN)
    identity = fingerprint(private.public_key())
    signed = Signature(
        key=identity,
        run=run.name,
        digest=sums.digest(content),
        signature=base64.b64encode(private.sign(_CONTEXT + content)).decode(),
    )
    # The name is short, and only to find the file by: what holds is that the key verifies.
    path = run / f"{SIGNATURES}{identity[:16]}.json"
    try:
        replace_file(path, canonical.pretty_json(signed))
    except OSError as error:
        raise EvidenceError(f"{path}: the signature can't be written: {error.strerror or error}") from error
    return path


def read_signatures(run: Path) -> list[tuple[str, Signature | None]]:
    """The signatures of a run, by file; None for one that can't be read."""
    return [(path.name, _read(path)) for path in sorted(run.glob(f"{SIGNATURES}*.json"))]


def check_signature(run: Path, key: Path) -> list[FileProblem]:
    """What is wrong with the signature of a run by this key (public, or private); empty: it holds. It says nothing of the other
    files: ``store.verify`` does. Raises InputError for what is no key of Ed25519."""
    public = _public(key)
    identity = fingerprint(public)
    name = f"{SIGNATURES}{identity[:16]}.json"
    if not (run / name).exists():
        others = [told.key for _, told in read_signatures(run) if told is not None]
        by = f"it is signed by {', '.join(others)}" if others else "it is not signed"
        return [FileProblem("missing", name, f"no signature by {identity}; {by}")]
    signed = _read(run / name)
    if signed is None:
        return [FileProblem("damaged", name, "not a signature")]
    try:
        content = file_bytes(run / RUN)
        public.verify(base64.b64decode(signed.signature, validate=True), _CONTEXT + content)
    # A text that is no base64 is told by ValueError, or by a kind of it.
    except (InvalidSignature, ValueError):
        return [FileProblem("changed", RUN, "not what was signed")]
    except OSError as error:
        return [FileProblem("missing", RUN, error.strerror or str(error))]
    return []


def fingerprint(key: Ed25519PublicKey) -> str:
    """SHA-256 of the public key as X.509 has it, in hex: as ``openssl pkey -pubin -outform DER | sha256sum`` gives it."""
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
        raise InputError(f"{path}: the key is protected by a password; expected one without") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(
            f"{path}: expected a private key of Ed25519 as PEM (kailab evidence keygen makes one)"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path}: expected a private key of Ed25519, not of another kind")
    return key


def _public(path: Path) -> Ed25519PublicKey:
    content = _content(path)
    # Whoever signs need not keep the public key at hand.
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
    try:
        return file_bytes(path)
    except OSError as error:
        raise InputError(f"{path}: the key can't be read: {error.strerror or error}") from error


def _read(path: Path) -> Signature | None:
    try:
        content = file_bytes(path)
        found = typed.decode_json(content, Signature)
        # In another text a key may stand twice, and what a reader takes is not what was checked.
        return found if content == canonical.pretty_json(found) else None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
