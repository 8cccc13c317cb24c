"""The processes of a real KAI: the programs of its release, each with the flags that it has there.

KAI's webhooks need a service in the cluster, so they stay off, but for the one that its binder relies on (``podwebhook``). Each program has ports of its own, so that several labs of one machine
don't meet; but some releases have programs with ports that no flag changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kailab.cluster.controlplane.certificates import Authority
from kailab.cluster.controlplane.ports import LOOPBACK, free_ports, is_free_everywhere
from kailab.model.private_files import make_folder
from kailab.undertest.contract import Plane, Tell
from kailab.undertest.kai.dialects import ADMISSION
from kailab.undertest.kai.folder import KaiFolder
from kailab.undertest.kai.podwebhook import can_be_called
from kailab.undertest.kai.releases import words_in
from kailab.undertest.kai.rest import CYCLE_ENDS
from kailab.undertest.programs import Program, Works, answers, says, shows
from kailab.undertest.webhooks import WebhookServer

# As fast as the API server allows: KAI's own bounds of 50 a second are for clusters with other users.
_FAST = ("--qps=1000", "--burst=2000")
_NOT_AT_WORK = "its controller has not started"
_AT_WORK = r"^controller_runtime_max_concurrent_reconciles\{"
# What the containers of a pod with a part of a GPU find in their environment would be prepared by KAI's webhook.
_NO_ENVIRONMENT = '--plugins={"gpusharing":{"enabled":false}}'
_METRICS = 8080  # where controllers show them that no flag tells where
_SERVING = Path("k8s-webhook-server", "serving-certs")  # in the folder for temporary files


# KAI's webhook puts GPU pods into a runtime class that only a cluster with GPUs has, where it is not told otherwise. It can be told
# since v0.9.7, by which nothing else tells the releases apart.
_RUNTIME_CLASS = "gpu-pod-runtime-class-name"


class Made(NamedTuple):
    """``pods``: the server of KAI's webhook for pods, where this release's binder relies on it, and it can be called."""

    programs: list[Program]
    pods: WebhookServer | None


def programs_of(plane: Plane, kai: KaiFolder, configured: Sequence[str], tell: Tell) -> Made:
    """With ports chosen anew. ``configured``: more arguments of the scheduler. ``tell``: gets what is left out, and why."""
    metrics, plugins, grouper, grouper_probe, binder, binder_probe, webhook, queues, groups, groups_probe = free_ports(
        10
    )
    made = _Made(plane, kai)
    if not kai.dialect.has_flag("queuecontroller", "metrics-listen-address"):
        queues = _METRICS
    found = [
        made.program(
            "scheduler",
            # The condition that an eviction leaves on its pod is how a lab sees that it was one.
            (*_FAST, _at("listen-address", metrics), f"--plugin-server-port={plugins}", "--leader-elect=false",
             "--update-pod-eviction-condition=true", "--v=2", *configured),
            metrics,
            says(plane.log("kai-scheduler"), CYCLE_ENDS, "its first scheduling cycle is not done"),
        ),
        made.program(
            "podgrouper",
            (*_FAST, _at("metrics-bind-address", grouper), _at("health-probe-bind-address", grouper_probe)),
            grouper,
            shows(_metrics(grouper), _AT_WORK, _NOT_AT_WORK),
        ),
        made.program(
            "binder",
            (*_FAST, _at("metrics-bind-address", binder), _at("health-probe-bind-address", binder_probe),
             f"--webhook-addr={webhook}", "--fake-gpu-nodes=true", "--gpu-sharing-enabled=true", _NO_ENVIRONMENT),
            binder,
            shows(_metrics(binder), _AT_WORK, _NOT_AT_WORK),
        ),
        made.program(
            "podgroupcontroller",
            (*_FAST, _at("metrics-bind-address", groups), _at("health-probe-bind-address", groups_probe),
             "--enable-podgroup-webhook=false"),
            groups_probe,
            answers(f"http://{LOOPBACK}:{groups_probe}/readyz"),
        ),
        made.program(
            "queuecontroller",
            (*_FAST, _at("metrics-listen-address", queues), "--enable-webhook=false"),
            queues,
            shows(_metrics(queues), _AT_WORK, _NOT_AT_WORK),
        ),
    ]  # fmt: skip
    kept = _with_free_ports(kai, found, tell)
    serves = _serves_pods(plane, kai, tell)
    if serves == ADMISSION:
        kept.append(made.admission(webhook))
    return Made(kept, WebhookServer(made.serving(serves), webhook) if serves else None)


class _Made:
    """Makes the programs of one KAI for one plane."""

    def __init__(self, plane: Plane, kai: KaiFolder) -> None:
        self._plane = plane
        self._kai = kai

    def program(self, name: str, arguments: Sequence[str], port: int, works: Works) -> Program:
        dialect = self._kai.dialect
        environment = self._certificate(name) if dialect.wants_certificate(name) else {}
        flags = dialect.flags(name, arguments)
        return Program(f"kai-{name}", self._kai.binaries[name], flags, port, works, environment)

    def admission(self, webhook: int) -> Program:
        """The program with KAI's webhooks for pods. ``webhook``: its port."""
        metrics, probe = free_ports(2)
        binary = self._kai.binaries[ADMISSION]
        arguments = (
            *_FAST, f"--webhook-addr={webhook}", _at("metrics-bind-address", metrics),
            _at("health-probe-bind-address", probe), "--gpu-sharing-enabled=true",
            *(f"--{one}=" for one in sorted(words_in(binary, [_RUNTIME_CLASS]))),
        )  # fmt: skip
        works = answers(f"http://{LOOPBACK}:{probe}/readyz")
        return Program(f"kai-{ADMISSION}", binary, arguments, probe, works, self._certificate(ADMISSION))

    def serving(self, program: str) -> Path:
        """Where a program looks for the certificate of its webhook server."""
        return self._temporary(program) / _SERVING

    def _temporary(self, program: str) -> Path:
        return Path(self._plane.folder).absolute() / f"kai-{program}-tmp"

    def _certificate(self, program: str) -> dict[str, str]:
        """A certificate where the program looks for it, and the environment in which it looks there."""
        serving = self.serving(program)
        make_folder(serving)
        Authority.made(serving, "ca").serving(serving, "tls")
        return {"TMPDIR": str(self._temporary(program))}


def _serves_pods(plane: Plane, kai: KaiFolder, tell: Tell) -> str | None:
    """The program whose webhook for pods is to be called; None: this release needs none, or none can be called."""
    wanted = kai.dialect.pod_webhook
    # By their words alone, releases around v0.7.13 are not told apart: whoever has the program has the webhook in it.
    serves = ADMISSION if wanted and ADMISSION in kai.binaries else wanted
    if serves is None:
        return None
    never = "this release never binds pods with a part of a GPU that have not been through KAI's webhook"
    if not can_be_called(plane):
        tell(f"{never}; the webhook is on this machine, where this API server can't call it")
        return None
    if serves not in kai.binaries:
        tell(f"{never}; the webhook is in KAI's program {ADMISSION}, which {kai.path} lacks")
        return None
    return serves


def _with_free_ports(kai: KaiFolder, found: Sequence[Program], tell: Tell) -> list[Program]:
    """Without those whose own ports are taken, by another lab or by one before them; what is decided hangs on none of these."""
    taken: dict[int, str] = {}
    kept = []
    for program in found:
        name = program.name.removeprefix("kai-")
        ports = kai.dialect.fixed_ports(name)
        if clash := next((port for port in ports if port in taken or not is_free_everywhere(port)), 0):
            by = f"by KAI's {taken[clash]}" if clash in taken else "by another lab with KAI?"
            tell(
                f"KAI's {name} is left out: its port {clash} is taken ({by}). Status of PodGroups and Queues will not say all "
                "that is allocated; what is decided is the same"
            )
            continue
        taken |= dict.fromkeys(ports, name)
        kept.append(program)
    return kept


def _at(flag: str, port: int) -> str:
    return f"--{flag}={LOOPBACK}:{port}"


def _metrics(port: int) -> str:
    return f"http://{LOOPBACK}:{port}/metrics"
