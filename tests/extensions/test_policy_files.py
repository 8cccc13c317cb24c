"""Policies in files of one's own: ``FILE.py:CLASS``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kailab.errors import InputError, PolicyError
from kailab.lab import Lab, expect
from kailab.scheduler.settings.config_file import load_settings
from tests.extensions.conftest import pods

ORDER = """
from kailab.engine import JobOrder, JobView

class {name}(JobOrder, frozen=True):
    reverse: bool = False

    def key(self, job: JobView) -> float:
        return -job.wants.gpu if self.reverse else job.wants.gpu
"""


def configured(folder: Path, policy: str, code: str, file: str = "order.py") -> Path:
    (folder / file).write_text(code)
    path = folder / "config.yaml"
    path.write_text(f"kailab:\n  jobOrder: {policy}\n")
    return path


@pytest.mark.parametrize(("reverse", "first"), [(False, "small"), (True, "large")])
def test_a_file_beside_the_configuration_decides(tmp_path: Path, reverse: bool, first: str) -> None:
    policy = f"{{policy: 'order.py:Fewest', parameters: {{reverse: {str(reverse).lower()}}}}}"
    config = configured(tmp_path, policy, ORDER.format(name="Fewest"))
    with Lab.open("lesson", config=config) as lab:
        lab.apply(pods(large=8, small=1))
        lab.settle()
        for name in ("small", "large"):
            if name == first:
                expect(lab.pod(name)).running(pods=1)
            else:
                expect(lab.pod(name)).pending()


@pytest.mark.parametrize(
    ("policy", "code", "said"),
    [
        ("missing.py:A", "", "missing.py"),
        ("order.py:Other", ORDER.format(name="Fewest"), "it has: Fewest"),
        ("order.py:Order", "def key(:", "is no Python"),
        ("order.py:Order", "raise RuntimeError('not today')", "not today"),
        ("order.py:Order", "Order = 5", "is no policy"),
        ("order.py:Order", "class Order: pass", "is no policy"),
        ("order.py:..", ORDER.format(name="Fewest"), "it has: Fewest"),
    ],
)
def test_what_is_no_policy_is_told_with_its_file(tmp_path: Path, policy: str, code: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        load_settings(configured(tmp_path, policy, code))


def test_a_policy_that_fails_is_refused_with_its_name(tmp_path: Path) -> None:
    code = (
        "from kailab.engine import JobOrder\nclass Odd(JobOrder, frozen=True):\n    def key(self, job): return 'soon'\n"
    )
    config = configured(tmp_path, "odd.py:Odd", code, "odd.py")
    with Lab.open("lesson", config=config) as lab:
        lab.apply(pods(a=1, b=1))
        with pytest.raises(PolicyError, match=r"odd\.py:Odd"):
            lab.settle()


def test_a_file_that_changed_is_refused_in_the_same_process(tmp_path: Path) -> None:
    config = configured(tmp_path, "order.py:Fewest", ORDER.format(name="Fewest"))
    before = load_settings(config).engine.job_order_policy
    assert before is not None
    assert before.version.startswith("sha256:")
    assert load_settings(config).engine.job_order_policy == before
    (tmp_path / "order.py").write_text(ORDER.format(name="Fewest") + "# later\n")
    with pytest.raises(InputError, match="has changed since it was first read"):
        load_settings(config)
