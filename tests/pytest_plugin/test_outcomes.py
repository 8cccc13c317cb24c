"""What becomes of a test that asks for a lab is in the evidence of the run, also where it never had one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kailab.evidence import store
from kailab.evidence.entries import OutcomeEntry
from kailab.report import page, render

pytest_plugins = ["pytester"]

TESTS = """
    import pytest

    @pytest.fixture
    def breaks_after(lab):
        yield
        raise RuntimeError("can't be cleaned up")

    @pytest.fixture
    def needs_disk(): raise RuntimeError("no disk")

    def test_breaks_after(breaks_after): pass

    def test_before_its_lab(needs_disk, lab): pass

    def test_no_fixture(lab, nowhere): pass

    def test_fails_and_breaks(breaks_after): assert 1 == 2

    @pytest.mark.skip(reason="waits for https://me:zQsecret77@host/ | <b>")
    def test_skipped(lab): '''It is not run.'''

    @pytest.mark.skip
    def test_without_reason(lab): pass

    def test_skips_itself(lab): pytest.skip("no such hardware")

    @pytest.mark.xfail(reason="known")
    def test_xfailed(lab): assert False

    @pytest.mark.xfail(run=False, reason="hangs")
    def test_not_run(lab): pass

    def test_gives_up(lab): pytest.xfail("not yet")

    @pytest.mark.xfail(reason="mended?")
    def test_xpassed(lab): pass

    @pytest.mark.xfail(strict=True, reason="mended!")
    def test_strict(lab): pass

    def test_no_lab_opened(lab_factory): pass

    @pytest.mark.skip(reason="has nothing to do with labs")
    def test_other(): pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> Path:
    pytester.makepyfile(test_it=TESTS)
    pytester.runpytest_inprocess().assert_outcomes(
        failed=2, errors=4, skipped=3 + 1, xfailed=3, xpassed=1, passed=2
    )  # one that breaks after its call counts as both
    return store.find_run(pytester.path / "evidence")


def results(run: Path) -> dict[str, OutcomeEntry]:
    return {one.name.rpartition(".")[2]: one.result for one in store.read_run(run)[1]}


def test_each_outcome_has_its_reason(run: Path) -> None:
    found = {name: (one.outcome, one.reason, one.message) for name, one in results(run).items()}
    assert found == {
        "test_breaks_after": ("error", "", "RuntimeError: can't be cleaned up"),
        "test_before_its_lab": ("error", "", "RuntimeError: no disk"),
        "test_no_fixture": ("error", "", "fixture 'nowhere' not found"),
        "test_fails_and_breaks": ("failed", "", "AssertionError: assert 1 == 2"),
        "test_skipped": ("skipped", "waits for https://(left out)@host/ | <b>", ""),
        "test_without_reason": ("skipped", "unconditional skip", ""),
        "test_skips_itself": ("skipped", "no such hardware", ""),
        "test_xfailed": ("xfailed", "known", "AssertionError: assert False"),
        "test_not_run": ("xfailed", "hangs", ""),
        "test_gives_up": ("xfailed", "not yet", ""),
        "test_xpassed": ("xpassed", "mended?", ""),
        "test_strict": ("failed", "", "[XPASS(strict)] mended!"),
        "test_no_lab_opened": ("passed", "", ""),
    }
    assert results(run)["test_skipped"].sentence == "It is not run."
    assert {name for name, one in results(run).items() if not one.labs} == {
        "test_before_its_lab", "test_skipped", "test_without_reason", "test_not_run", "test_no_lab_opened",
    }  # fmt: skip
    assert store.verify_evidence(run) == []


def test_reports_count_them_apart_and_tell_why(run: Path, tmp_path: Path) -> None:
    counted = {"error": 3, "failed": 2, "passed": 1, "skipped": 3, "xfailed": 3, "xpassed": 1}
    assert store.read_run(run)[0].outcomes == counted
    markdown, text = render(run, "markdown"), render(run)
    for told in (markdown, text):
        assert "3 error, 2 failed, 1 passed, 3 skipped, 3 xfailed, 1 xpassed" in told
    assert "| It is not run. (waits for https://(left out)&#64;host/ &#124; &lt;b&gt;) |" in markdown
    assert ".test_before_its_lab: error" in markdown
    assert ".test_skipped: skipped" not in markdown
    assert "test_skips_itself: skipped: no such hardware" in text
    assert page.write_page([run], tmp_path / "page.html") > 0


def test_an_interrupted_test_is_written_up(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_one(lab): lab.advance(5)
        def test_two(lab):
            lab.advance(5)
            raise KeyboardInterrupt
        def test_three(lab): pass
        """
    )
    assert pytester.runpytest_subprocess().ret == pytest.ExitCode.INTERRUPTED
    run = store.find_run(pytester.path / "evidence")
    assert {name: (one.outcome, one.labs) for name, one in results(run).items()} == {
        "test_one": ("passed", ("lab",)),
        "test_two": ("interrupted", ("lab",)),
    }


def test_no_test_runs_where_only_fixtures_are_set_up(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(lab): pass")
    for option in ("--setup-only", "--setup-plan"):
        assert pytester.runpytest_inprocess(option).ret in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert not (pytester.path / "evidence").exists()


def test_junit_names_the_evidence_of_a_skipped_test(pytester: pytest.Pytester) -> None:
    from xml.etree import ElementTree

    pytester.makepyfile("import pytest\n@pytest.mark.skip(reason='later')\ndef test_one(lab): pass\n")
    pytester.runpytest_inprocess("--junitxml=junit.xml").assert_outcomes(skipped=1)
    [case] = ElementTree.parse(pytester.path / "junit.xml").iter("testcase")
    [folder] = [one.get("value") for one in case.iter("property") if one.get("name") == "kailab_evidence"]
    result = store.find_run(pytester.path / "evidence") / str(folder) / "result.json"
    assert json.loads(result.read_text())["reason"] == "later"
