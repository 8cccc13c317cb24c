"""Evidence tells from which line of a test something was done, expected, and failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kailab.evidence import store

pytest_plugins = ["pytester"]

POD = """
def pod(name, **env):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"schedulerName": "kai-scheduler", "containers": [
                {"name": "c", "image": "x", "env": [{"name": key, "value": value} for key, value in env.items()],
                 "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
"""


def told(root: Path) -> dict[str, tuple[list[Any], Any]]:
    """Test -> what was done and expected as (what, file, line, text); and the line at which it failed."""
    run = store.find_run(root / "evidence")
    found = {}
    for test in store.read_run(run)[1]:
        entries = [(one.operation, one.source) for lab in test.labs for one in test.steps(lab)]
        entries += [("expect", one.source) for lab in test.labs for one in test.expectations(lab)]
        lines = [(what, *(("", 0, "") if at is None else (at.file, at.line, at.text))) for what, at in entries]
        found[test.name.rpartition(".")[2]] = lines, test.result.source
    return found


def lines_of(file: Path, *texts: str) -> list[tuple[str, int, str]]:
    """Where in a test's file lines stand that hold these texts."""
    lines = file.read_text().splitlines()
    found = []
    for text in texts:
        [number] = [place for place, line in enumerate(lines, 1) if text in line]
        found.append((f"{file.parent.name}/{file.name}", number, lines[number - 1].strip()))
    return found


def test_each_step_and_expectation_has_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    folder = pytester.mkdir("checks")
    (folder / "conftest.py").write_text(
        "import pytest\n@pytest.fixture\ndef later(lab):\n    lab.advance(60)\n    return lab\n"
    )
    file = folder / "test_it.py"
    file.write_text(
        "import functools, pytest\nfrom kailab.errors import InputError\nfrom kailab.lab import eventually, expect\n"
        + POD
        + """
def test_one(later):
    later.apply(pod("one"))
    expect(later.app("one")).pending(pods=1)
    functools.partial(later.delete, "Pod", "one")()
    pytest.raises(InputError, later.delete, "Pod", "nobody")
    eventually(lambda: expect(later.app("one")).running(pods=3), within=5)
"""
    )
    pytester.runpytest_inprocess().assert_outcomes(failed=1)
    applied, expected, deleted, failed = lines_of(
        file, "apply(", 'app("one")).pending(pods=1)', "partial(", "eventually(lambda"
    )
    lines, at = told(pytester.path)["test_one"]
    assert lines == [
        ("advance", *lines_of(folder / "conftest.py", "advance(")[0]),
        ("apply", *applied),
        ("settle", *expected),
        ("delete", *deleted),
        ("advance", *failed),
        ("expect", *expected),
        ("expect", *failed),
    ]  # fmt: skip
    assert (at.file, at.line, at.text) == failed


def test_code_outside_of_the_root_goes_by_its_name_and_installed_code_by_who_called_it(
    pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "common_steps.py").write_text("def wait(lab):\n    lab.advance(5)\n")
    installed = elsewhere / "lib" / "site-packages"
    (installed / "steps_of_somebody").mkdir(parents=True)
    (installed / "steps_of_somebody" / "__init__.py").write_text("def wait(lab):\n    lab.advance(7)\n")
    (installed / "steps_of_somebody" / "test_installed.py").write_text("def test_installed(lab):\n    lab.advance(9)\n")
    root = pytester.mkdir("root")
    (root / "test_it.py").write_text(
        f"import sys\nsys.path[:0] = [{str(elsewhere)!r}, {str(installed)!r}]\n"
        "import common_steps, steps_of_somebody, threading\n"
        "def test_one(lab):\n    common_steps.wait(lab)\n    steps_of_somebody.wait(lab)\n"
        "    thread = threading.Thread(target=lab.advance, args=[1])\n    thread.start()\n    thread.join()\n"
    )
    pytester.runpytest_subprocess(
        f"--rootdir={root}", "root/test_it.py", str(installed / "steps_of_somebody" / "test_installed.py"),
        "--kailab-evidence=evidence",
    ).assert_outcomes(passed=2)  # fmt: skip
    found = told(pytester.path)
    assert found["test_one"][0] == [
        ("advance", "common_steps.py", 2, "lab.advance(5)"),
        ("advance", "test_it.py", 6, "steps_of_somebody.wait(lab)"),
        ("advance", "", 0, ""),
    ]
    assert found["test_installed"][0] == [("advance", "steps_of_somebody/test_installed.py", 2, "lab.advance(9)")]
    for path in (pytester.path / "evidence").rglob("*"):
        assert path.is_dir() or str(elsewhere).encode() not in path.read_bytes()


def test_a_line_is_kept_without_its_secrets(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        POD
        + """
def test_one(lab):
    lab.apply(pod("one", TOKEN="zQplain7777", OTHER='zQ"quo\\\\ted7'))
    lab.patch("Pod", "one", {"metadata": {"annotations": {"note": "zQ\\"note-77", "lines": "zQone\\nzQtwo"}}})
    lab.advance(1)  # https://me:zQinurl77@host/
    lab.advance(2)  # """
        + "x" * 400
        + """
    assert lab.now == "zQplain7777"
"""
    )
    pytester.runpytest_inprocess().assert_outcomes(failed=1)
    lines, at = told(pytester.path)["test_one"]
    texts = [text for _, _, _, text in lines]
    assert texts[0] == """lab.apply(pod("one", TOKEN="(left out)", OTHER='(left out)'))"""
    assert texts[1].count("(left out)") == 2
    assert texts[2] == "lab.advance(1)  # https://(left out)@host/"
    assert texts[3] == "", "what is cut in its middle would not be recognized"
    assert at.text == 'assert lab.now == "(left out)"'
    for path in (pytester.path / "evidence").rglob("*"):
        assert path.is_dir() or b"zQ" not in path.read_bytes(), path


def test_a_lab_by_hand_has_no_lines(pytester: pytest.Pytester) -> None:
    from kailab.evidence.recorder import Recorder
    from kailab.lab import Lab

    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.advance(1)
    recorder.write(pytester.path / "lab")
    assert [sorted(one) for one in json.loads((pytester.path / "lab/steps.json").read_text())] == [
        ["n", "operation", "seconds", "t", "text"]
    ]
