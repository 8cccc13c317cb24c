"""A real KAI beside a control plane: five local processes over its API server.

KAI's webhooks need a service in the cluster, so they stay off; its operator, which would start these programs as pods, is not
needed. Each has ports of its own, so that several labs of one machine don't meet (but for one, see ``_FIXED_PORT``).
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tenacity

from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.protocol import Cluster
from kailab.errors import AlreadyExists, ConnectError
from kailab.undertest import programs
from kailab.undertest.contract import Beside, Plane, Rest, SchedulerFailed, Start, Tell
from kailab.undertest.kai.folder import KaiFolder, find_kai
from kailab.undertest.kai.rest import CYCLE_ENDS, NAMES, KaiRest
from kailab.undertest.kai.settings import kai_settings
from kailab.undertest.kai.version import kai_version
from kailab.undertest.programs import PortTaken, Program, answers, says, shows

RESERVATION = "kai-resource-reservation"  # namespace and service account of the pods that hold shared GPUs
NAMESPACES = ("kai-scheduler", RESERVATION, "kai-scale-adjust")

# As fast as the API server allows: KAI's own bounds of 50 a second are for clusters with other users.
_FAST = ("--qps=1000", "--burst=2000")
_PORT_TRIES = 5
_FIXED_PORT = 8080  # podgroupcontroller serves metrics here, whatever its flags say
_NOT_AT_WORK = "its controller has not started"
_AT_WORK = r"^controller_runtime_max_concurrent_reconciles\{"
# What the containers of a pod with a part of a GPU find in their environment would be prepared by KAI's webhook.
_NO_ENVIRONMENT = '--plugins={"gpusharing":{"enabled":false}}'


class KaiBeside(Beside):
    """``folder``, ``crds``: see ``find_kai``, which looks at them when they are first needed."""

    def __init__(self, plane: Plane, folder: Path | str | None = None, crds: Path | str | None = None) -> None:
        self._plane = plane
        self._given = folder, crds

    @cached_property
    def _kai(self) -> KaiFolder:
        return find_kai(*self._given)

    def prepare(self, cluster: Cluster) -> None:
        """Its CRDs in their own words, priority classes, namespaces, and the account of its reservation pods. Raises InputError for
        a folder that is no KAI's."""
        prepare(cluster, self._kai.crds)

    def start(self, cluster: Cluster, start: Start, tell: Tell = lambda _: None) -> None:
        """Returns when all of it works and its scheduler has been through a cycle. Raises InputError for a folder that is no KAI's,
        too."""
        kai, settings = self._kai, kai_settings(start.settings)
        self.prepare(cluster)
        running = {process.name for process in self._plane.processes() if process.running}
        # Started twice, both would decide on the same pods.
        if here := [name for name in NAMES if name in running]:
            raise SchedulerFailed(f"KAI runs in this lab already: {', '.join(here)}")
        path = Path(self._plane.folder) / "kai-scheduler.yaml"
        path.write_text(settings.conf, encoding="utf-8")
        arguments = (f"--scheduler-conf={path.absolute()}", *settings.flags)
        retry = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(_PORT_TRIES),
            retry=tenacity.retry_if_exception_type(PortTaken),
            reraise=True,
        )
        # The list is made anew for each try, with other ports.
        retry(lambda: programs.run(self._plane, _programs(self._plane, kai, arguments, tell)))

    @property
    def names(self) -> Sequence[str]:
        return NAMES

    def check(self) -> None:
        programs.check(self._plane, self.names)

    def stop(self) -> None:
        programs.stop(self._plane, self.names)

    def version(self) -> str:
        return f"kai {kai_version(self._kai, self._plane.log(NAMES[0]))}"

    def rest(self, cluster: Cluster) -> Rest:
        return KaiRest(self._plane, cluster)


def _programs(plane: Plane, kai: KaiFolder, configured: Sequence[str], tell: Tell) -> list[Program]:
    binaries = kai.binaries
    environment = (_NO_ENVIRONMENT,) if kai.release.binder_plugins else ()
    metrics, plugins, grouper, grouper_probe, binder, binder_probe, queues, groups, groups_probe = free_ports(9)
    found = [
        Program(
            "kai-scheduler",
            binaries["scheduler"],
            # The condition that an eviction leaves on its pod is how a lab sees that it was one.
            (*_FAST, _at("listen-address", metrics), f"--plugin-server-port={plugins}", "--leader-elect=false",
             "--update-pod-eviction-condition=true", "--v=2", *configured),
            metrics,
            says(plane.log("kai-scheduler"), CYCLE_ENDS, "its first scheduling cycle is not done"),
        ),
        Program(
            "kai-podgrouper",
            binaries["podgrouper"],
            (*_FAST, _at("metrics-bind-address", grouper), _at("health-probe-bind-address", grouper_probe)),
            grouper,
            shows(_metrics(grouper), _AT_WORK, _NOT_AT_WORK),
        ),
        Program(
            "kai-binder",
            binaries["binder"],
            (*_FAST, _at("metrics-bind-address", binder), _at("health-probe-bind-address", binder_probe),
             "--fake-gpu-nodes=true", *environment),
            binder,
            shows(_metrics(binder), _AT_WORK, _NOT_AT_WORK),
        ),
        Program(
            "kai-queuecontroller",
            binaries["queuecontroller"],
            (*_FAST, _at("metrics-listen-address", queues), "--enable-webhook=false"),
            queues,
            shows(_metrics(queues), _AT_WORK, _NOT_AT_WORK),
        ),
    ]  # fmt: skip
    if not _is_free(_FIXED_PORT):
        tell(
            f"KAI's podgroupcontroller is left out: its port {_FIXED_PORT} is taken (by another lab with KAI?). Status of PodGroups "
            "and Queues will not say what is allocated; what is decided is the same"
        )
        return found
    found.append(
        Program(
            "kai-podgroupcontroller",
            binaries["podgroupcontroller"],
            (*_FAST, _at("metrics-bind-address", groups), _at("health-probe-bind-address", groups_probe),
             "--enable-podgroup-webhook=false"),
            groups_probe,
            answers(f"http://{LOOPBACK}:{groups_probe}/readyz"),
        )
    )  # fmt: skip
    return found


def _at(flag: str, port: int) -> str:
    return f"--{flag}={LOOPBACK}:{port}"


def _metrics(port: int) -> str:
    return f"http://{LOOPBACK}:{port}/metrics"


def _is_free(port: int) -> bool:
    """Whether the port can be had on all addresses, as Go's ``:8080`` asks for it."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with socket.socket(family) as one:
        # As Go sets it: connections that are closing don't count.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            one.bind(("", port))
        except OSError:
            return False
    return True


def prepare(cluster: Cluster, crds: Sequence[dict[str, Any]]) -> None:
    """What KAI finds in a cluster where it was installed: its CRDs in their own words, priority classes, namespaces, and
    the account of its reservation pods. Done again it changes nothing."""
    from kailab.cluster.install import await_established, install

    for crd in crds:
        cluster.apply(crd)
    try:
        # Before anything creates or watches objects of these kinds: until then the API server does not serve them.
        await_established(cluster, [crd["metadata"]["name"] for crd in crds])
    except ConnectError as error:
        raise SchedulerFailed(f"the API server does not take KAI's CRDs: {error}") from None
    install(cluster)
    for obj in (
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": RESERVATION, "namespace": RESERVATION}},
    ):
        try:
            cluster.create(obj)
        except AlreadyExists:
            continue
