"""The command line's side of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from kailab.cli.main import app
from kailab.components import pins
from kailab.components.pins import PROGRAMS

if TYPE_CHECKING:
    from tests.components.conftest import Published


@pytest.fixture(autouse=True)
def places(published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with nothing, for whom the test's server stands in for the official ones."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    for name in ("KUBERNETES", "GITHUB", "GITHUB_API"):
        monkeypatch.setenv(f"KAILAB_DOWNLOAD_{name}", f"{published.url}/")


def kailab(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_get_list_verify(published: Published, tmp_path: Path) -> None:
    published.publish_all()
    before = kailab("components", "list", "-o", "json")
    assert {item["state"] for item in json.loads(before.stdout)} == {"missing"}
    assert kailab("components", "verify").exit_code == 1
    got = kailab("components", "get")
    assert got.exit_code == 0, got.stderr
    assert [Path(line).name for line in got.stdout.splitlines()] == list(PROGRAMS)
    assert all(line.startswith(str(tmp_path / "xdg" / "kailab" / "components")) for line in got.stdout.splitlines())
    assert "kube-apiserver v1.35.4 (2 of 6): downloading from" in got.stderr
    listed = kailab("components", "list")
    assert "downloaded" in listed.stdout
    assert [line.split()[:3] for line in listed.stdout.splitlines()[1:]] == [
        [pin.name, pin.version, "ok"] for pin in pins()
    ]
    assert kailab("components", "verify").exit_code == 0
    Path(got.stdout.splitlines()[0]).write_text("no etcd any more")
    wrong = kailab("components", "verify")
    assert wrong.exit_code == 1
    assert "error: wrong or missing programs: etcd" in wrong.stderr


def test_it_is_told_what_cannot_be_got(published: Published) -> None:
    failed = kailab("components", "get", "--kubernetes", "1.34", "--by", "download")
    assert failed.exit_code == 2
    assert "error: kubectl v1.34.4" in failed.stderr
    assert "404" in failed.stderr
    unknown = kailab("components", "get", "--kubernetes", "9.9")
    assert unknown.exit_code == 2
    assert "'9.9' is not among the releases" in unknown.stderr


@pytest.mark.slow
def test_doctor_tells_what_is_missing_and_how_it_is_got(published: Published) -> None:
    published.publish_all()
    found = json.loads(kailab("doctor", "-o", "json").stdout)
    etcd = next(one for one in found if (one["area"], one["name"]) == ("component", "etcd"))
    assert not etcd["there"]
    assert "`kailab components get` downloads it" in etcd["told"]
    assert kailab("components", "get").exit_code == 0
    found = json.loads(kailab("doctor", "-o", "json").stdout)
    assert [one["there"] for one in found if one["area"] == "component"] == [True] * len(PROGRAMS)
