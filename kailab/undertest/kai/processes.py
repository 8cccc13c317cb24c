"""Run a real KAI beside a control plane: its programs as local processes, without KAI's operator.

``KaiProcesses`` prepares the cluster and starts the programs that ``kai_programs`` lists, each with the flags that its release has and
with its own ports, so that several labs can share a machine. Some releases have programs with ports that no flag changes.
``KaiIdleDetector`` counts whole scheduling cycles since the last change: a fixed pause would be too long on a quiet machine and too
short on a busy one.

KAI's webhooks need a Service in the cluster and stay off, with one exception. Before v0.15, the binder binds a pod with a part of a GPU
only if KAI's pod webhook has given it a name for a ConfigMap (annotation ``runai/shared-gpu-configmap``). The name is unique to the pod,
so a template can't hold it. Only these pods are sent to the webhook.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from kailab.cluster.connect import connect
from kailab.cluster.controlplane.credentials import Authority
from kailab.cluster.controlplane.ports import LOOPBACK, free_ports, is_free_everywhere
from kailab.cluster.install import install
from kailab.cluster.protocol import Cluster
from kailab.errors import AlreadyExists, InputError, KailabError, NotFound
from kailab.model import labels
from kailab.model.callbacks import Tell
from kailab.model.objects import ENDED_PHASES, Object, annotations_of, is_terminating, labels_of, status_of
from kailab.model.private_files import make_folder, write_text
from kailab.undertest import programs
from kailab.undertest.contract import IdleDetector, Plane, SchedulerFailed, StartSettings
from kailab.undertest.kai.folder import KaiFolder, find_kai, kai_version
from kailab.undertest.kai.releases import ADMISSION, words_in
from kailab.undertest.kai.settings import kai_arguments
from kailab.undertest.kai.topologies import missing_definitions
from kailab.undertest.programs import Program, address_flag
from kailab.undertest.webhooks import WebhookServer

WEBHOOK_NAME = "kailab-kai-shared-gpus"
_WEBHOOK_KIND = "MutatingWebhookConfiguration.admissionregistration.k8s.io"
_WEBHOOK_PATH = "/mutate--v1-pod"
_API_SERVER = "kube-apiserver"
_SHARES = " || ".join(f"'{annotation}' in object.metadata.annotations" for annotation in labels.GPU_SHARES)
_CONDITIONS = (
    ("kais", f"object.spec.schedulerName == '{labels.SCHEDULER_NAME}'"),
    ("shares-a-gpu", f"has(object.metadata.annotations) && ({_SHARES})"),
)


def can_be_called(plane: Plane) -> bool:
    """True if the API server is a process of this machine. The API server of a kind cluster can't call a program here."""
    return _API_SERVER in plane.own


def register_webhook(cluster: Cluster, server: WebhookServer) -> None:
    """Let the API server call it for its pods. As in KAI's chart, pods are refused while the program is away."""
    for configuration in server.called([_configuration()], ""):
        cluster.apply(configuration)


def _configuration() -> Object:
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    webhook = {
        "name": "shared-gpus.kai.kailab.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "rules": [{**pods, "scope": "Namespaced"}],
        "matchConditions": [{"name": name, "expression": expression} for name, expression in _CONDITIONS],
        "clientConfig": {"service": {"path": _WEBHOOK_PATH}},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": WEBHOOK_NAME},
        "webhooks": [webhook],
    }


def unregister_webhook(cluster: Cluster) -> None:
    """Let the API server call it no more."""
    with suppress(NotFound):
        cluster.delete(_WEBHOOK_KIND, WEBHOOK_NAME)


def unregister_webhook_of(plane: Plane) -> None:
    """As ``unregister_webhook``, with a plane's own credentials; nothing happens if its API server is away."""
    with suppress(KailabError), connect(plane.kubeconfig, name=WEBHOOK_NAME) as cluster:
        unregister_webhook(cluster)


# --- idle detection ---------------------------------------------------------------------------------------------------

PROCESS_NAMES = (
    "kai-scheduler", "kai-podgrouper", "kai-binder", "kai-queuecontroller", "kai-podgroupcontroller", "kai-admission",
)  # fmt: skip
"""The names of the processes in the plane."""

_MAY_BE_LEFT_OUT = PROCESS_NAMES[3:]  # missing in some releases, or if their ports are in use

CYCLE_ENDS = "End scheduling"
"""The text in the scheduler's log after each cycle. Its metrics can't show that a cycle ended: they have the duration of the last one in
whole milliseconds, which may be 0 or unchanged."""

CHECK_SECONDS = 1.0
_CYCLES = 3  # one cycle that may have begun before the change, and two whole ones


def needed_processes(plane: Plane) -> list[str]:
    """The processes of ``NAMES`` that must run. One that was ended on purpose and not restarted belonged to another release."""
    left_out = {process.name for process in plane.processes() if process.name in _MAY_BE_LEFT_OUT and process.stopped}
    return [name for name in PROCESS_NAMES if name not in left_out]


class KaiIdleDetector:
    """``plane``: that runs KAI; ``cluster``: a client of it."""

    def __init__(self, plane: Plane, cluster: Cluster) -> None:
        self._plane = plane
        self._cluster = cluster
        self._heard = programs.LogCounter(plane.log(PROCESS_NAMES[0]), CYCLE_ENDS)
        self._since = 0
        self._checked = float("-inf")

    def changed(self) -> None:
        self._since = self._heard.listen()

    def is_idle(self) -> bool:
        # This is called far more often than once a second, and checking processes costs time.
        if (now := time.monotonic()) - self._checked >= CHECK_SECONDS:
            programs.check_programs(self._plane, needed_processes(self._plane))
            self._checked = now
        return self._heard.listen() - self._since >= _CYCLES and not self._under_way()

    def _under_way(self) -> bool:
        """Pods that have no PodGroup yet, and decisions that the binder has not carried out."""
        for pod in self._cluster.list("Pod"):
            spec, notes = pod["spec"], annotations_of(pod)
            if spec.get("schedulerName") != labels.SCHEDULER_NAME or spec.get("nodeName"):
                continue
            named = labels.POD_GROUP in notes or labels.SKIP_PODGROUPER in {**notes, **labels_of(pod)}
            if not named and not is_terminating(pod) and not spec.get("schedulingGates"):
                return True
        return any(status_of(request).get("phase") not in ENDED_PHASES for request in self._cluster.list("BindRequest"))


# --- programs and their flags -----------------------------------------------------------------------------------------

# As fast as the API server allows. KAI's default of 50 requests a second protects clusters with other users.
_FAST = ("--qps=1000", "--burst=2000")
_NOT_AT_WORK = "its controller has not started"
_AT_WORK = r"^controller_runtime_max_concurrent_reconciles\{"
# Off, because it needs KAI's webhook to prepare the environment of containers that share a GPU.
_NO_ENVIRONMENT = '--plugins={"gpusharing":{"enabled":false}}'
_METRICS = 8080  # the metrics port of controllers that have no flag for it
_SERVING = Path("k8s-webhook-server", "serving-certs")  # in the folder for temporary files


# Unless it is told otherwise, KAI's webhook sets a runtime class for GPU pods that only clusters with GPUs have. The flag exists since
# v0.9.7, which is not recognised otherwise.
_RUNTIME_CLASS = "gpu-pod-runtime-class-name"


class KaiPrograms(NamedTuple):
    """``pods``: the server of KAI's pod webhook, if the binder of this release needs it and it can be called."""

    programs: list[Program]
    pods: WebhookServer | None


def kai_programs(plane: Plane, kai: KaiFolder, configured: Sequence[str], tell: Tell) -> KaiPrograms:
    """The programs, on free ports. ``configured``: further arguments of the scheduler. ``tell`` receives which programs are left out and why."""
    metrics, plugins, grouper, grouper_probe, binder, binder_probe, webhook, queues, groups, groups_probe = free_ports(
        10
    )
    made = _ProgramFactory(plane, kai)
    if not kai.dialect.has_flag("queuecontroller", "metrics-listen-address"):
        queues = _METRICS
    started = [
        made.program(
            "scheduler",
            # A lab recognises evictions by the condition that they leave on the pod.
            (*_FAST, address_flag("listen-address", metrics), f"--plugin-server-port={plugins}", "--leader-elect=false",
             "--update-pod-eviction-condition=true", "--v=2", *configured),
            metrics,
            programs.log_check(plane.log("kai-scheduler"), CYCLE_ENDS, "its first scheduling cycle is not done"),
        ),
        made.program(
            "podgrouper",
            (*_FAST, address_flag("metrics-bind-address", grouper), address_flag("health-probe-bind-address", grouper_probe)),
            grouper,
            programs.metrics_check(_metrics(grouper), _AT_WORK, _NOT_AT_WORK),
        ),
        made.program(
            "binder",
            (*_FAST, address_flag("metrics-bind-address", binder), address_flag("health-probe-bind-address", binder_probe),
             f"--webhook-addr={webhook}", "--fake-gpu-nodes=true", "--gpu-sharing-enabled=true", _NO_ENVIRONMENT),
            binder,
            programs.metrics_check(_metrics(binder), _AT_WORK, _NOT_AT_WORK),
        ),
        made.program(
            "podgroupcontroller",
            (*_FAST, address_flag("metrics-bind-address", groups), address_flag("health-probe-bind-address", groups_probe),
             "--enable-podgroup-webhook=false"),
            groups_probe,
            programs.health_check(f"http://{LOOPBACK}:{groups_probe}/readyz"),
        ),
        made.program(
            "queuecontroller",
            (*_FAST, address_flag("metrics-listen-address", queues), "--enable-webhook=false"),
            queues,
            programs.metrics_check(_metrics(queues), _AT_WORK, _NOT_AT_WORK),
        ),
    ]  # fmt: skip
    runnable = _with_free_ports(kai, started, tell)
    serves = _serves_pods(plane, kai, tell)
    if serves == ADMISSION:
        runnable.append(made.admission(webhook))
    return KaiPrograms(runnable, WebhookServer(made.serving(serves), webhook) if serves else None)


class _ProgramFactory:
    """Makes the programs of one KAI for one plane."""

    def __init__(self, plane: Plane, kai: KaiFolder) -> None:
        self._plane = plane
        self._kai = kai

    def program(self, name: str, arguments: Sequence[str], port: int, works: programs.ProgramCheck) -> Program:
        dialect = self._kai.dialect
        environment = self._certificate(name) if dialect.wants_certificate(name) else {}
        flags = dialect.flags(name, arguments)
        return Program(f"kai-{name}", self._kai.binaries[name], flags, port, works, environment)

    def admission(self, webhook: int) -> Program:
        """The program with KAI's webhooks for pods. ``webhook``: its port."""
        metrics, probe = free_ports(2)
        binary = self._kai.binaries[ADMISSION]
        arguments = (
            *_FAST, f"--webhook-addr={webhook}", address_flag("metrics-bind-address", metrics),
            address_flag("health-probe-bind-address", probe), "--gpu-sharing-enabled=true",
            *(f"--{flag}=" for flag in sorted(words_in(binary, [_RUNTIME_CLASS]))),
        )  # fmt: skip
        works = programs.health_check(f"http://{LOOPBACK}:{probe}/readyz")
        return Program(f"kai-{ADMISSION}", binary, arguments, probe, works, self._certificate(ADMISSION))

    def serving(self, program: str) -> Path:
        """The folder in which a program expects the certificate of its webhook server."""
        return self._temporary(program) / _SERVING

    def _temporary(self, program: str) -> Path:
        return Path(self._plane.folder).absolute() / f"kai-{program}-tmp"

    def _certificate(self, program: str) -> dict[str, str]:
        """Write a certificate for the program. Returns the environment that points the program to it."""
        serving = self.serving(program)
        make_folder(serving)
        Authority.made(serving, "ca").issue_server(serving, "tls")
        return {"TMPDIR": str(self._temporary(program))}


def _serves_pods(plane: Plane, kai: KaiFolder, tell: Tell) -> str | None:
    """The program whose pod webhook must be called; None: this release needs none, or it can't be called."""
    wanted = kai.dialect.pod_webhook
    # Releases around v0.7.13 can't be told apart by their strings; the program that exists has the webhook.
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


def _with_free_ports(kai: KaiFolder, programs: Sequence[Program], tell: Tell) -> list[Program]:
    """Leave out programs whose fixed ports are in use, by another lab or an earlier program; decisions do not depend on these programs."""
    taken: dict[int, str] = {}
    runnable = []
    for program in programs:
        name = program.name.removeprefix("kai-")
        ports = kai.dialect.fixed_ports(name)
        if clash := next((port for port in ports if port in taken or not is_free_everywhere(port)), 0):
            by = f"by KAI's {taken[clash]}" if clash in taken else "by another lab with KAI?"
            tell(
                f"KAI's {name} is left out: its port {clash} is in use ({by}). The status of PodGroups and Queues will lack some "
                "allocated amounts; decisions are the same"
            )
            continue
        taken |= dict.fromkeys(ports, name)
        runnable.append(program)
    return runnable


def _metrics(port: int) -> str:
    return f"http://{LOOPBACK}:{port}/metrics"


# --- KAI as a scheduler under test ------------------------------------------------------------------------------------

RESERVATION = "kai-resource-reservation"  # namespace and service account of the pods that hold shared GPUs
NAMESPACES = ("kai-scheduler", RESERVATION, "kai-scale-adjust")


class KaiProcesses(programs.LocalProcesses):
    """``folder``, ``crds``: see ``find_kai``, which checks them when they are first needed."""

    def __init__(self, plane: Plane, folder: Path | str | None = None, crds: Path | str | None = None) -> None:
        super().__init__(plane)
        self._given = folder, crds

    @cached_property
    def _kai(self) -> KaiFolder:
        return find_kai(*self._given)

    def prepare(self, cluster: Cluster) -> None:
        """Apply CRDs, priority classes, namespaces and the account of reservation pods. Raises InputError for a folder without a KAI."""
        prepare(cluster, self._kai)

    def start(self, cluster: Cluster, start: StartSettings, tell: Tell = lambda _: None) -> None:
        """Start KAI, and return when all programs work and its scheduler has finished a cycle. Also raises InputError for a folder without a
        KAI."""
        kai = self._kai
        settings = kai_arguments(start.settings, kai.dialect)
        self.prepare(cluster)
        running = {process.name for process in self._plane.processes() if process.running}
        # Two instances would decide on the same pods.
        if here := [name for name in PROCESS_NAMES if name in running]:
            raise SchedulerFailed(f"KAI runs in this lab already: {', '.join(here)}")
        path = Path(self._plane.folder) / "kai-scheduler.yaml"
        write_text(path, settings.conf)
        arguments = (f"--scheduler-conf={path.absolute()}", *settings.flags)
        programs.on_free_ports(lambda: self._run(cluster, kai_programs(self._plane, kai, arguments, tell)))

    def _run(self, cluster: Cluster, made: KaiPrograms) -> None:
        # An earlier release may have been killed without removing it.
        unregister_webhook(cluster)
        programs.run_programs(self._plane, made.programs)
        if made.pods is not None:
            register_webhook(cluster, made.pods)

    def check(self) -> None:
        programs.check_programs(self._plane, needed_processes(self._plane))

    def stop(self) -> None:
        # A missing folder must not prevent the end of its processes.
        with suppress(InputError):
            # Before it ends: pods with a part of a GPU can't be created while the webhook is registered and away.
            if self._kai.dialect.pod_webhook is not None:
                unregister_webhook_of(self._plane)
        super().stop()

    @property
    def names(self) -> Sequence[str]:
        return PROCESS_NAMES

    def version(self) -> str:
        return f"kai {kai_version(self._kai, self._plane.log(PROCESS_NAMES[0]))}"

    def ignored_words(self, objects: Sequence[Object]) -> Sequence[str]:
        return tuple(dict.fromkeys(word for obj in objects for word in self._kai.dialect.ignored_words(obj)))

    def idle_detector(self, cluster: Cluster) -> IdleDetector:
        return KaiIdleDetector(self._plane, cluster)


def prepare(cluster: Cluster, kai: KaiFolder) -> None:
    """Apply what an installation of KAI creates: its CRDs, priority classes, namespaces, and the account of its reservation pods.
    Idempotent."""
    programs.install_definitions(cluster, [*kai.crds, *missing_definitions(kai)], "KAI")
    install(cluster)
    for obj in (
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": RESERVATION, "namespace": RESERVATION}},
    ):
        try:
            cluster.create(obj)
        except AlreadyExists:
            continue
