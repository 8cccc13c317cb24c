"""Volcano beside a control plane: its scheduler, and the controllers that open queues and make PodGroups.

Its webhooks check what is applied, and fill in what is left out; labs write whole objects, and do without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.protocol import Cluster
from kailab.model.private_files import make_folder, write_text
from kailab.undertest import programs
from kailab.undertest.beside import ProgramsBeside, on_free_ports
from kailab.undertest.contract import Plane, Rest, Start, Tell
from kailab.undertest.crds import bring_in
from kailab.undertest.programs import Program, answers, shows
from kailab.undertest.volcano.folder import VolcanoFolder, find_volcano
from kailab.undertest.volcano.rest import CYCLES, NAMES, VolcanoRest
from kailab.undertest.volcano.words import NAME

_FAST = ("--kube-api-qps=1000", "--kube-api-burst=2000")


class VolcanoBeside(ProgramsBeside):
    """``folder``: see ``find_volcano``, which looks at it when it is first needed."""

    def __init__(self, plane: Plane, folder: Path | str | None = None) -> None:
        super().__init__(plane)
        self._given = folder

    @cached_property
    def _volcano(self) -> VolcanoFolder:
        return find_volcano(self._given)

    def prepare(self, cluster: Cluster) -> None:
        """Its kinds. Raises InputError for a folder that is no Volcano's."""
        bring_in(cluster, self._volcano.crds, NAME)

    def start(self, cluster: Cluster, start: Start, tell: Tell = lambda _: None) -> None:
        """Returns when its scheduler has been through a cycle. Raises InputError for a folder that is no Volcano's."""
        self.prepare(cluster)
        # A folder of its own: all of it is watched, and with the plane's the scheduler would read its file anew all the time.
        folder = Path(self._plane.folder) / "volcano-conf"
        make_folder(folder)
        conf = folder / "scheduler.conf"
        write_text(conf, yaml.safe_dump(configuration(), sort_keys=False))
        on_free_ports(lambda: programs.run(self._plane, self._programs(conf)))

    def _programs(self, conf: Path) -> list[Program]:
        metrics, health, controllers, controllers_health = free_ports(4)
        common = (f"--kubeconfig={self._plane.kubeconfig}", "--leader-elect=false", "--enable-healthz=true", *_FAST)
        return [
            Program(
                NAMES[1],
                self._volcano.programs["controller-manager"],
                (*common, _at("listen-address", controllers), _at("healthz-address", controllers_health)),
                controllers_health,
                answers(f"http://{LOOPBACK}:{controllers_health}/healthz"),
            ),
            Program(
                NAMES[0],
                self._volcano.programs["scheduler"],
                (
                    *common,
                    f"--scheduler-conf={conf}",
                    "--enable-metrics=true",
                    "--cache-dumper=false",
                    f"--plugins-dir={conf.parent}",
                    _at("listen-address", metrics),
                    _at("healthz-address", health),
                ),
                metrics,
                shows(f"http://{LOOPBACK}:{metrics}/metrics", rf"^{CYCLES} [1-9]", "its first cycle is not done"),
            ),
        ]

    @property
    def names(self) -> Sequence[str]:
        return NAMES

    def version(self) -> str:
        return f"{NAME} {self._volcano.version() or 'unknown (neither its scheduler nor its folder says it)'}"

    def rest(self, cluster: Cluster) -> Rest:
        return VolcanoRest(self._plane)


def configuration() -> dict[str, Any]:
    """As the documents of its capacity plugin have it, with the tree of queues, and what is deserved heeded at every level."""
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]
    capacity = {"name": "capacity", "enableHierarchy": True, "arguments": {"ancestorReclaimLevel": 10}}
    second = [{"name": "predicates"}, capacity, {"name": "nodeorder"}, {"name": "binpack"}]
    actions = "enqueue, allocate, preempt, reclaim, backfill"
    return {"actions": actions, "tiers": [{"plugins": first}, {"plugins": second}]}


def _at(flag: str, port: int) -> str:
    return f"--{flag}={LOOPBACK}:{port}"
