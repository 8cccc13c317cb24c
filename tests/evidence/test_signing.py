"""A signature over a run: it holds for what was signed by that key, and for nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kailab.errors import EvidenceError, InputError
from kailab.evidence import canonical, signing, store
from kailab.evidence import run as sums
from kailab.evidence.run import RunFolder, run_digest


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with one file in it."""
    folder = RunFolder.begin(tmp_path / "evidence")

    def fill(test: Path) -> None:
        (test / "result.json").write_text('{"format": 3, "outcome": "passed"}')

    folder.write("quota", "test_one", fill)
    folder.finish()
    return folder.path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    signing.generate_key(tmp_path / "key")
    return tmp_path / "key"


def test_a_run_signed_holds_with_the_public_key(run: Path, key: Path) -> None:
    file = signing.sign_run(run, key)
    assert file.parent == run
    assert signing.check_signature(run, key.with_name("key.pub")) == []
    assert store.verify_evidence(run) == []
    before = file.read_bytes()
    assert signing.sign_run(run, key).read_bytes() == before


def test_the_private_key_is_its_owners_alone(key: Path) -> None:
    assert key.stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match="exists already"):
        signing.generate_key(key)


def test_whoever_writes_files_and_sums_anew_has_no_signature(run: Path, key: Path) -> None:
    signing.sign_run(run, key)
    test = run / "quota" / "test_one"
    (test / "result.json").write_text('{"format": 3, "outcome": "failed"}')
    sums.write_sums(test)
    listing = sums.render_sums(
        [(f"quota/test_one/{sums.SUMS_FILE}", sums.digest((test / sums.SUMS_FILE).read_bytes()))]
    )
    (run / sums.SUMS_FILE).write_bytes(listing)
    facts = json.loads((run / "run.json").read_text())
    facts["sums"] = sums.digest(listing)
    facts["digest"] = run_digest(facts)
    (run / "run.json").write_bytes(canonical.pretty_json(facts))
    assert store.verify_evidence(run) == []  # checksums alone prove nothing against who can write them
    assert [str(one) for one in signing.check_signature(run, key)] == ["changed: run.json (not what was signed)"]


def test_several_keys_may_sign_and_another_has_not(run: Path, key: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    signing.generate_key(other)
    signing.sign_run(run, key)
    (missing,) = signing.check_signature(run, other)
    assert (missing.kind, signing.key_fingerprint(key) in missing.detail) == ("missing", True)
    signing.sign_run(run, other)
    assert signing.check_signature(run, other) == signing.check_signature(run, key) == []
    assert len(signing.read_signatures(run)) == 2


def test_a_signature_of_another_run_does_not_hold(run: Path, key: Path, tmp_path: Path) -> None:
    file = signing.sign_run(run, key)
    facts = json.loads((run / "run.json").read_text())
    other = tmp_path / "evidence" / "other"
    shutil.copytree(run, other)
    facts["begun"] = "2026-01-01T00:00:00Z"
    (other / "run.json").write_text(json.dumps(facts))
    assert [one.kind for one in signing.check_signature(other, key)] == ["changed"]
    (other / file.name).write_text("{}")
    assert [one.kind for one in signing.check_signature(other, key)] == ["damaged"]


@pytest.mark.parametrize("text", ["", "A", "c2lnbmF0dXJl", "Zürich==", "\u2028"])
def test_a_signature_that_is_none_does_not_hold(run: Path, key: Path, text: str) -> None:
    file = signing.sign_run(run, key)
    told = json.loads(file.read_text())
    file.write_bytes(canonical.pretty_json({**told, "signature": text}))
    assert [str(one) for one in signing.check_signature(run, key)] == ["changed: run.json (not what was signed)"]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"format"', '"format": 1, "format"'),
        lambda text: json.dumps(json.loads(text)),
        lambda text: text + "\n",
        lambda text: "",
    ],
    ids=["a key twice", "in one line", "an empty line more", "empty"],
)
def test_a_signature_in_another_text_is_none(run: Path, key: Path, change: Callable[[str], str]) -> None:
    file = signing.sign_run(run, key)
    file.write_text(change(file.read_text()))
    assert [(one.kind, one.path) for one in signing.check_signature(run, key)] == [("damaged", file.name)]
    assert [(one.kind, one.path) for one in store.verify_evidence(run)] == [("damaged", file.name)]


def test_what_is_damaged_is_not_signed(run: Path, key: Path) -> None:
    (run / "quota/test_one/result.json").write_text("{}")
    with pytest.raises(EvidenceError, match=r"not signed: changed: quota/test_one/result\.json"):
        signing.sign_run(run, key)
    assert signing.read_signatures(run) == []


def test_keys_of_openssl_serve_and_others_are_refused(run: Path, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    own, ec = tmp_path / "own.pem", tmp_path / "ec.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", own], check=True, capture_output=True)
    public = tmp_path / "own.pub"
    subprocess.run(["openssl", "pkey", "-in", own, "-pubout", "-out", public], check=True)
    signing.sign_run(run, own)
    assert signing.check_signature(run, public) == []
    form = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", ec]
    subprocess.run(form, check=True, capture_output=True)
    with pytest.raises(InputError, match=r"ec\.pem: expected a private key of Ed25519"):
        signing.sign_run(run, ec)


@pytest.mark.parametrize("content", ["", "not a key", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_what_is_no_key_is_refused(run: Path, tmp_path: Path, content: str) -> None:
    file = tmp_path / "odd.pem"
    file.write_text(content)
    with pytest.raises(InputError, match=r"odd\.pem"):
        signing.check_signature(run, file)
    with pytest.raises(InputError, match=r"odd\.pem"):
        signing.sign_run(run, file)
    with pytest.raises(InputError, match="can't be read"):
        signing.check_signature(run, tmp_path / "nothing")
