"""What a user calls a scheduler under test."""

from pathlib import Path

import pytest

from kailab.errors import InputError
from kailab.undertest.selection import check_lab, choose_scheduler

NAMES = """\
old:
  kind: kai
  folder: kai/v0.12.23
  crds: kai/crds.yaml
packed:
  kind: kailab
  config: packed.yaml
"""


@pytest.fixture
def names(tmp_path: Path) -> Path:
    file = tmp_path / "schedulers.yaml"
    file.write_text(NAMES)
    return file


def test_two_folders_are_two_schedulers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old, new = choose_scheduler("kai=old"), choose_scheduler("kai=new")
    assert (old.kind, old.name, old.option("kai")) == ("kai", "kai", str(tmp_path / "old"))
    assert old != new
    assert old == choose_scheduler(f"kai={tmp_path / 'old'}") == choose_scheduler("kai", {"kai": tmp_path / "old"})


def test_a_name_from_a_file(names: Path) -> None:
    old = choose_scheduler(f"old@{names}")
    assert (old.kind, old.name, old.title) == ("kai", "old", "KAI")
    assert old.option("kai") == str(names.parent / "kai" / "v0.12.23")
    assert old.option("kai_crds") == str(names.parent / "kai" / "crds.yaml")
    packed = choose_scheduler(f"packed@{names}")
    assert (packed.kind, packed.option("config")) == ("kailab", str(names.parent / "packed.yaml"))


def test_a_name_from_a_file_goes_where_its_kind_goes(names: Path) -> None:
    check_lab("embedded", f"packed@{names}", {"config": "c.yaml"})
    check_lab("controlplane", f"old@{names}", {})
    with pytest.raises(InputError, match="a real KAI needs a real API server"):
        check_lab("embedded", f"old@{names}", {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("karma", "there is no scheduler 'karma'; expected one of: kailab, kailab+kube-scheduler, kube-scheduler, kai"),
        ("karma=x", "there is no scheduler 'karma'"),
        ("kai=", "expected the folder of its programs after the ="),
        ("kube-scheduler=x", "kube-scheduler is no folder of programs; those that are: kai"),
        ("@x", "expected NAME@FILE"),
        ("old@", "expected NAME@FILE"),
        ("old@/nonexistent", "/nonexistent"),
    ],
)
def test_text_that_is_no_name_is_refused(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        choose_scheduler(text)
    assert told in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("other: {kind: kai}", "there is no scheduler 'old' in it; it names: other"),
        ("- old", "expected one mapping"),
        ("", "expected one mapping"),
        ("old: kai", "1: old: expected a mapping with the key kind"),
        ("old:\n  kind: karma", "2: old: kind: expected one of: kailab, kailab+kube-scheduler, kube-scheduler, kai"),
        ("old:\n  folder: x", "old: kind: expected one of"),
        (
            "old:\n  kind: kai\n  config: a\n  plugins: x",
            "4: old: plugins: the kind kai does not understand it; it understands:",
        ),
        ("old:\n  kind: kube-scheduler\n  config: x", "3: old: config: the kind kube-scheduler does not understand it"),
        ("old:\n  kind: kai\n  folder: [x]", "3: old: folder: expected text, got ['x']"),
        ("old:\n  kind: kai\n  folder: {x", "schedulers.yaml"),
    ],
)
def test_a_file_of_names_that_is_wrong(names: Path, content: str, told: str) -> None:
    names.write_text(content)
    with pytest.raises(InputError) as caught:
        choose_scheduler(f"old@{names}")
    assert told in str(caught.value)
    assert str(names) in str(caught.value)


def test_the_name_of_a_kind_is_taken(names: Path) -> None:
    names.write_text("kai:\n  kind: kai\n")
    with pytest.raises(InputError, match="1: kai: expected a name of small letters"):
        choose_scheduler(f"kai@{names}")


def test_an_option_given_twice_is_refused(names: Path) -> None:
    for text in ("kai=x", f"old@{names}"):
        with pytest.raises(InputError, match=f"--kai-bin: the name of the scheduler, {text}, contains it already"):
            choose_scheduler(text, {"kai": "y"})
