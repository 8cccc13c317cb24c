"""``python -m benchmarks.pages``: measure changes on the live page of a large lab.

A lab in a file is opened as by ``kailab serve``, and small changes are made: a pod is submitted and deleted, a Deployment scaled by one, the
scheduler stepped. Results are seconds of processor time until the update is published, and until the change is saved. Then the same lab is
measured in headless Chromium (``benchmarks.browsing``): its report, and the live page during changes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time

import msgspec

from benchmarks import browsing
from benchmarks.looks import work
from kailab.fleet.reading import load_fleet
from kailab.lab import lab_files, life
from kailab.scheduler.settings.config_file import settings_of
from kailab.serve.actions import DeleteObject, PageAction, SetFields, SubmitManifests
from kailab.serve.session import LabSession
from kailab.serve.view import PageView
from kailab.undertest.selection import choose_scheduler

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: one-more, labels: {kai.scheduler/queue: team-1}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def changes(replicas: int) -> dict[str, PageAction]:
    """Small changes. The lab's Deployments start with 32 replicas."""
    return {
        "a pod submitted": SubmitManifests(POD),
        "scaled by one": SetFields([f"deployment/api-0.replicas={replicas}"]),
        "a pod deleted": DeleteObject("pod/one-more"),
    }


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    options.add_argument("--fleet", default="scale-5000")
    options.add_argument("--pods", type=int, default=40_000)
    options.add_argument("--no-browser", action="store_true", help="the server alone")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "lab.state"
        life.begin(
            state, load_fleet(arguments.fleet), "embedded", choose_scheduler("kailab"), settings_of(None), {}
        ).close()
        with lab_files.open_for_change(state, print, print) as lab:
            lab.apply(list(work(arguments.pods, lab.facts()["gpus"])))
            lab.settle()
        measured(state)
        if not arguments.no_browser:
            browsing.report(state, Path(folder) / "report.html")
            browsing.live(state, {name: msgspec.to_builtins(action) for name, action in changes(34).items()})


def measured(state: Path) -> None:
    """Measure reads and changes."""
    published: list[float] = []
    session = LabSession(state, print, lambda view: published.append(process_time()))
    begun = process_time()
    view = session.refresh()
    print_row("first look", process_time() - begun, view)
    for name, action in changes(33).items():
        number = session.preview(action)["id"]
        act(name, session, published, partial(LabSession.apply, preview_id=number))
    act("stepped", session, published, LabSession.step)


def act(name: str, session: LabSession, published: list[float], do: Callable[[LabSession], str]) -> None:
    """Make a change and print its times."""
    published.clear()
    begun = process_time()
    do(session)
    saved, at_once = process_time() - begun, [f"{moment - begun:.2f} s" for moment in published[:-1]]
    first = f", the change {at_once[0]}, its first cycle {at_once[1]}" if len(at_once) > 1 else ""
    print_row(name, published[-1] - begun, None, saved, first)


def print_row(
    name: str, shown: float, view: PageView | None = None, saved: float | None = None, first: str = ""
) -> None:
    more = f"{len(view.lab) / 2**20:.1f} MiB" if view is not None else f"saved {saved:.2f} s{first}"
    print(f"{name:<20} shown {shown:6.2f} s  {more}", flush=True)


if __name__ == "__main__":
    main()
