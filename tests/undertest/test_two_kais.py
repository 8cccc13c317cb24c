"""Two real KAIs in one process, each in a lab of its own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kailab.cluster.protocol import Object
from kailab.lab import Lab, expect
from kailab.undertest.kai.folder import BINARIES_ENV

pytestmark = pytest.mark.slow

Makes = Callable[[str], Object]
OTHER_ENV = "KAILAB_OTHER_KAI_BIN"
QUEUES = Path(__file__).parents[2] / "exercises" / "quota" / "manifests" / "queues.yaml"


@pytest.fixture
def folders() -> tuple[Path, Path]:
    """Of another release where one is given, else the same KAI under another name."""
    if not os.environ.get(BINARIES_ENV):
        pytest.skip(f"no real KAI here: {BINARIES_ENV} names no folder of its binaries")
    one = Path(os.environ[BINARIES_ENV]).absolute()
    return one, Path(os.environ.get(OTHER_ENV) or one).absolute()


@pytest.mark.usefixtures("components")
def test_two_folders_decide_side_by_side(folders: tuple[Path, Path], tmp_path: Path, pod: Makes) -> None:
    other = tmp_path / "kai-v0.99.0"
    other.symlink_to(folders[1])
    second = folders[1] if folders[0] != folders[1] else other
    names = tmp_path / "schedulers.yaml"
    names.write_text(f"second:\n  kind: kai\n  folder: {second}\n")
    with (
        Lab.open(backend="controlplane", scheduler=f"kai={folders[0]}") as lab,
        Lab.open(backend="controlplane", scheduler=f"second@{names}", config={"actions": "allocate"}) as beside,
    ):
        for one in (lab, beside):
            one.apply(QUEUES, [pod("a"), pod("b")])
        for one in (lab, beside):
            one.settle()
            expect(one.app("work")).running(2)
        assert (lab.scheduler, beside.scheduler) == ("kai", "second")
        versions = [one.venue.versions(one.under_test)["scheduler"] for one in (lab, beside)]
        assert versions[0] != versions[1]
        ports = [{process.port for process in one.venue.plane.processes() if process.port} for one in (lab, beside)]
        assert not ports[0] & ports[1]
        conf = [(one.venue.plane.folder / "kai-scheduler.yaml").read_text() for one in (lab, beside)]
        assert ["reclaim" in text for text in conf] == [True, False]
