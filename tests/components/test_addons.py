"""Add-ons: programs of other projects, built from pinned Go modules, with the manifests that a cluster needs for them."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from kailab.cli.main import app
from kailab.components import (
    ADDONS,
    ComponentCache,
    ComponentManifests,
    DamagedComponent,
    MissingComponents,
    find_addon,
    get_addon,
)
from kailab.components.build import Go, build
from kailab.components.manifests import write_manifests
from kailab.components.pins import MANIFESTS
from kailab.components.recipes import RECIPES
from kailab.components.versions import module_version
from tests.components.test_build import REQUIRED
from tests.undertest.test_kai_version import program

PROGRAM, ARCHIVE = ADDONS["kueue"]
REPLACED = {
    "Replace": [
        {"Old": {"Path": "a.example/x", "Version": "v1.0.0"}, "New": {"Path": "b.example/x", "Version": "v1.1.0"}},
        {"Old": {"Path": "a.example/y"}, "New": {"Path": "a.example/y", "Version": "v2.0.0"}},
        {"Old": {"Path": "a.example/z"}, "New": {"Path": "./staging/z"}},
    ],
    "Exclude": [{"Path": "c.example/w", "Version": "v3.0.0"}],
}


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A Go module as it lies unpacked, with some YAML in it."""
    folder = tmp_path / "module"
    for path, text in {
        "go.mod": "module sigs.k8s.io/kueue\n\ngo 1.26.0\n",
        "go.sum": "a.example/x v1.0.0 h1:one=\n",
        "config/components/crd/bases/b.yaml": "kind: B\n---\nkind: C\n",
        "config/components/crd/bases/a.yaml": "kind: A\n",
        "config/components/webhook/manifests.yaml": "kind: W\n",
        "config/components/webhook/notes.txt": "no YAML\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture
def go(tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch) -> Go:
    """A ``go`` that has the module, and makes of a build a program that says what it was built from; it keeps what it was given."""
    made = program(tmp_path / "made", f"path\tx\nmod\t{RECIPES['kueue'].module}\t{PROGRAM.version}\th1:x\n")
    (tmp_path / "download.json").write_text(json.dumps({"Dir": str(module), "GoMod": str(module / "go.mod")}))
    (tmp_path / "edit.json").write_text(json.dumps(REPLACED))
    script = f"""#!/bin/sh
case "$1 $2" in
"env GOVERSION") echo go1.99.1;;
"mod download") cat {tmp_path}/download.json;;
"mod edit") cat {tmp_path}/edit.json;;
"build "*) cp go.mod go.sum {tmp_path}; echo "$@" > {tmp_path}/asked
  while [ "$1" != -o ]; do shift; done; cp {made} "$2";;
esac
"""
    (tmp_path / "go").mkdir()
    (tmp_path / "go" / "go").write_text(script)
    (tmp_path / "go" / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'go'}:{os.environ['PATH']}")
    return Go(str(tmp_path / "go" / "go"), "1.99.1")


def test_a_module_lends_what_go_heeds_only_in_the_module_that_it_is_called_in(tmp_path: Path, go: Go) -> None:
    (tmp_path / "out").mkdir()
    made = build(PROGRAM, go, tmp_path / "out", lambda *_: None)
    assert module_version(made, "sigs.k8s.io/kueue") == "v0.19.2"
    assert (tmp_path / "go.mod").read_text().splitlines() == [
        "module kailab.invalid/kueue",
        "go 1.26.0",
        "require sigs.k8s.io/kueue v0.19.2",
        "replace a.example/x v1.0.0 => b.example/x v1.1.0",
        "replace a.example/y => a.example/y v2.0.0",
        "exclude c.example/w v3.0.0",
    ]
    # What the checksum database does not have, the module vouches for.
    assert (tmp_path / "go.sum").read_text() == "a.example/x v1.0.0 h1:one=\n"
    assert (tmp_path / "asked").read_text().split()[-1] == "sigs.k8s.io/kueue/cmd/kueue"


def test_an_addon_is_got_once_with_its_manifests(cache: ComponentCache, go: Go, tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(MissingComponents, match=r"kueue v0.19.2, manifests.zip v0.19.2. `kailab components get --with"):
        find_addon("kueue", cache)
    addon = get_addon("kueue", cache=cache, tell=told.append)
    assert find_addon("kueue", cache).programs == addon.programs
    assert addon.version == "v0.19.2"
    assert addon.programs == {"kueue": cache.path(PROGRAM)}
    assert [one["kind"] for one in addon.manifests.objects("config/components/crd/bases/*.yaml")] == ["A", "B", "C"]
    assert addon.manifests.files[-1] == "config/components/webhook/manifests.yaml"
    # Nothing is built without being said: how long, and how large.
    assert any("building with go1.99.1" in line and "110 MB" in line for line in told)
    (tmp_path / "asked").unlink()
    get_addon("kueue", cache=cache)
    assert not (tmp_path / "asked").exists()


def test_a_program_of_another_version_is_not_taken(cache: ComponentCache, go: Go, tmp_path: Path) -> None:
    program(tmp_path / "made", f"path\tx\nmod\t{RECIPES['kueue'].module}\tv0.1.0\th1:x\n")
    with pytest.raises(Exception, match=r"it is kueue v0.1.0; v0.19.2 was expected"):
        get_addon("kueue", cache=cache)
    assert cache.entry(PROGRAM) is None


def test_the_same_files_make_the_same_bytes(tmp_path: Path, module: Path) -> None:
    for name in ("one", "two"):
        write_manifests(tmp_path / name, module, ("config/components/crd",))
        os.utime(module / "config/components/crd/bases/a.yaml", (1e9, 1e9))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with pytest.raises(DamagedComponent, match=r"one: has no file config/\*\.yml"):
        ComponentManifests(tmp_path / "one").objects("config/*.yml")


def test_a_file_that_is_no_archive_is_told(tmp_path: Path) -> None:
    (tmp_path / MANIFESTS).write_bytes(b"no archive")
    with pytest.raises(DamagedComponent, match=r"manifests\.zip: can't be read"):
        ComponentManifests(tmp_path / MANIFESTS).objects("*")
    with zipfile.ZipFile(tmp_path / "binary.zip", "w") as kept:
        kept.writestr("a.yaml", b"\xff\xfe")
    with pytest.raises(DamagedComponent, match=r"can't be read"):
        ComponentManifests(tmp_path / "binary.zip").objects("*")


def test_the_command_line(go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))

    def run(*arguments: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(app, ["components", *arguments])
        return done.exit_code, done.stdout, done.stderr

    code, _, said = run("get", "--with", "nonesuch")
    assert (code, "'nonesuch' is no add-on; there are kueue" in said) == (2, True)
    code, _, said = run("get", "--from", str(tmp_path), "--with", "kueue")
    assert (code, "leave out --by, --kind, --helm, --vcluster and --with" in said) == (2, True)
    get_addon("kueue")
    code, listed, _ = run("list", "--with", "kueue", "-o", "json")
    mine = [item for item in json.loads(listed) if item["version"] == "v0.19.2"]
    assert [(item["name"], item["state"]) for item in mine] == [("kueue", "ok"), (MANIFESTS, "ok")]
    Path(mine[0]["path"]).write_text("something else")
    code, _, said = run("verify", "--with", "kueue")
    assert code == 1
    assert "kueue" in said
    told = CliRunner().invoke(app, ["doctor", "-o", "json"])
    found = {one["name"]: one for one in json.loads(told.stdout) if one["area"] == "add-on"}
    assert list(found) == list(ADDONS)
    assert "get it again with `kailab components get --with kueue`" in found["kueue"]["told"]


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get(REQUIRED) != "1", reason=f"takes minutes and Go's module proxy: set {REQUIRED}=1")
@pytest.mark.parametrize("name", list(ADDONS))
def test_each_is_built_from_its_module(name: str) -> None:
    """Into the user's own cache, from which other tests take it."""
    addon = get_addon(name)
    assert all(module_version(path, RECIPES[name].module) == addon.version for path in addon.programs.values())
    kinds = {one["kind"] for path in addon.manifests.files for one in addon.manifests.objects(path) if "kind" in one}
    assert "CustomResourceDefinition" in kinds
