"""A user's file, checked by mypy --strict against kailab as it is installed from its wheel, and run."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow

USERS = '''
"""Opens a lab, applies, expects, reads decisions, and brings a policy of its own."""

from __future__ import annotations

from kailab import EngineConfig, InputError, Lab, expect
from kailab.engine import Decisions, JobOrder, JobView, PolicyChoice, Snapshot, decide, register_policy


class FewestFirst(JobOrder, frozen=True):
    """The fewest GPUs first."""

    step: int = 1000

    def key(self, job: JobView) -> float:
        return job.wants.gpu // self.step


QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 8, limit: 8, overQuotaWeight: 1}}}
"""
POD = """---
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {kai.scheduler/queue: team}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: c, image: pause, resources: {limits: {nvidia.com/gpu: GPUS}}}]
"""


def pod(name: str, gpus: int) -> str:
    return POD.replace("NAME", name).replace("GPUS", str(gpus))


def reasons(decisions: Decisions) -> list[str]:
    return [str(waiting.code) for waiting in decisions.pending]


def main() -> None:
    register_policy("fewest-first", FewestFirst)
    config = EngineConfig(job_order_policy=PolicyChoice(name="fewest-first", parameters={"step": 500}))
    with Lab.open(fleet="lesson", config=config) as lab:
        lab.apply(QUEUE + pod("large", 8) + pod("small", 1))
        lab.settle()
        expect(lab.pod("small")).running(pods=1)
        expect(lab.pod("large")).pending(reason="OverLimit")
        last = lab.log.last
        if last is not None:
            print(reasons(last))
        try:
            lab.apply("kind: Nothing")
        except InputError as error:
            print(error.message)
    print(decide(Snapshot(), EngineConfig(), 0.0).binds)


if __name__ == "__main__":
    main()
'''


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the wheel of kailab installed, and all that it needs from where these tests run."""
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False)
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    assert (site / "kailab" / "py.typed").exists()
    own = next(place for place in sys.path if place.endswith("site-packages"))
    (site / "others.pth").write_text(f"{own}\n")
    return folder / "env" / "bin" / "python"


def test_a_users_file_is_typed_throughout_and_runs(python: Path, tmp_path: Path) -> None:
    (tmp_path / "users.py").write_text(USERS)
    (tmp_path / "wrong.py").write_text(
        "from kailab import Lab\nlab: int = Lab.open()\nfrom kailab.engine import NoSuchName\n"
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        str(python),
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    checked = subprocess.run([*command, "users.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    wrong = subprocess.run([*command, "wrong.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert 'expression has type "Lab", variable has type "int"' in wrong.stdout
    assert 'has no attribute "NoSuchName"' in wrong.stdout
    where = [str(python), "-c", "import kailab; print(kailab.__file__)"]
    place = subprocess.run(where, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout
    assert place.startswith(str(python.parents[1]))
    ran = subprocess.run([str(python), "users.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == "['OverLimit']"
