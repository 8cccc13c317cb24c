"""Run operators as processes beside a control plane: define their kinds, register their webhooks, start, check and end them.

``Operators`` starts the operators of a plane by name (``kailab.operators.registry``). ``kailab.operators.launching`` has the flags and
configuration of each. Webhook manifests are taken from the operator's own kustomization: its resources, and JSON patches that replace.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kailab.cluster.base_objects import namespace_object
from kailab.cluster.controlplane.ports import free_ports, is_free_everywhere
from kailab.cluster.install import CRD, await_established
from kailab.cluster.polling import poll_while_fewer, write_until_answered
from kailab.cluster.protocol import Cluster, object_exists
from kailab.cluster.writes import CreateWrite
from kailab.components import Addon, ComponentManifests, DamagedComponent, MissingComponents, find_addon
from kailab.errors import ConnectError, InputError, KailabError, Unavailable
from kailab.model.callbacks import Tell
from kailab.model.objects import Object, name_of
from kailab.model.patches import json_patch
from kailab.model.private_files import make_folder
from kailab.operators.launching import OperatorSite
from kailab.operators.publishing import OperatorTopology, PublishedFleet, unpublished_nodes
from kailab.operators.registry import OPERATORS, programs_of
from kailab.undertest import programs
from kailab.undertest.contract import Plane, SchedulerFailed
from kailab.undertest.programs import Program
from kailab.undertest.webhooks import webhook_server


def apply_kustomization(manifests: ComponentManifests, folder: str) -> list[Object]:
    """The objects of a folder with a ``kustomization.yaml``, patched. Raises DamagedComponent for files that can't be read."""
    (recipe,) = manifests.objects(f"{folder}/kustomization.yaml")
    files = [posixpath.join(folder, file) for file in recipe.get("resources") or ()]
    result = [obj for file in files for obj in manifests.objects(file)]
    for patch in recipe.get("patches") or ():
        file, target = posixpath.join(folder, patch["path"]), patch.get("target") or {}
        operations = [operation for document in manifests.documents(file) for operation in document]
        result = [replace_fields(obj, operations, file) if _matches(obj, target) else obj for obj in result]
    return result


def replace_fields(obj: Object, operations: list[dict[str, Any]], file: str) -> Object:
    """The object after the ``replace`` operations of a JSON patch; no operator's kustomization has others. ``file`` holds them. Raises
    DamagedComponent for another operation, and for one that finds nothing to replace."""
    for operation in operations:
        try:
            if operation.get("op") != "replace":
                raise InputError("expected a replacement")
            obj = json_patch(obj, [operation])
        except InputError as error:
            raise DamagedComponent(f"{file}: the patch {operation!r:.200} can't be carried out: {error}") from error
    return obj


def _matches(obj: Object, target: Mapping[str, str]) -> bool:
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    own = {"group": group, "version": version, "kind": obj.get("kind"), "name": name_of(obj)}
    return all(own.get(key) == value for key, value in target.items())


_DEFINE_SECONDS = 180.0
_PUBLISH_SECONDS = 120.0


class OperatorFailed(KailabError):
    """An operator has ended or did not start. The text has the last lines of its log."""

    exit_code = 1


class Operators:
    """Operators of a plane, by their names in ``OPERATORS``. The plane knows which processes run; this object has no state of its own."""

    def __init__(self, plane: Plane, names: Sequence[str]) -> None:
        self._plane = plane
        self.names = tuple(names)

    @classmethod
    def of(cls, plane: Plane) -> Operators:
        """The operators that the plane has, running or not."""
        there = {process.name for process in plane.processes()}
        return cls(plane, [name for name in OPERATORS if there.issuperset(programs_of(name))])

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds that these operators act on."""
        return tuple(kind for name in self.names for kind in OPERATORS[name].kinds)

    @property
    def _programs(self) -> list[str]:
        return [program for name in self.names for program in programs_of(name)]

    def start(self, cluster: Cluster, tell: Tell) -> None:
        """Define the operators' kinds, start those that need no fleet, and return when all work. Raises MissingComponents, OperatorFailed."""
        addons = find_addons(self.names)
        for name in self.names:
            tell(f"starting the operator {name}")
            wiring = _Wiring(self._plane, cluster, name, addons[name])
            wiring.define()
            if not OPERATORS[name].publishes_gpus:
                wiring.run()

    @property
    def publishes_gpus(self) -> bool:
        """True if one of them decides which GPUs the nodes have."""
        return any(OPERATORS[name].publishes_gpus for name in self.names)

    def publication(self, cluster: Cluster, fleet: PublishedFleet) -> Publication:
        """The publication of a fleet's GPUs by the operator that decides them."""
        (name,) = (one for one in self.names if OPERATORS[one].publishes_gpus)
        return Publication(self._plane, cluster, name, fleet)

    def check(self) -> None:
        """Raises OperatorFailed with the last lines of its log if an operator has ended."""
        if self.names:
            with _raise_operator_failed():
                programs.check_programs(self._plane, self._programs)


class Publication:
    """The GPUs of a fleet, published by an operator in place of those of an earlier fleet: ``begin`` before the nodes are created,
    ``complete`` after that."""

    def __init__(self, plane: Plane, cluster: Cluster, name: str, fleet: PublishedFleet) -> None:
        self._plane = plane
        self._cluster = cluster
        self._name = name
        self._fleet = fleet

    def begin(self, deleted: Collection[str]) -> None:
        """Start the operator anew, unless it runs with this topology. ``deleted``: names of nodes that are gone. Raises OperatorFailed."""
        topology = OperatorTopology(self._cluster, OPERATORS[self._name].namespace)
        names = programs_of(self._name)
        running = {process.name for process in self._plane.processes() if process.running}
        # A pod that ends late makes the operator remember a node that is gone, with its old GPUs.
        if deleted or not running.issuperset(names) or topology.read() != self._fleet.topology:
            programs.stop_programs(self._plane, names)
            topology.write(self._fleet.topology)
            _Wiring(self._plane, self._cluster, self._name, find_addon(self._name)).run()

    def complete(self) -> None:
        """Wait until all nodes have their GPUs, as long as some get them every ``_PUBLISH_SECONDS``. Raises OperatorFailed."""

        def unpublished() -> list[str]:
            with _raise_operator_failed():
                programs.check_programs(self._plane, programs_of(self._name))
            return unpublished_nodes(self._cluster, self._fleet.nodes)

        late = poll_while_fewer(unpublished, len(self._fleet.nodes), _PUBLISH_SECONDS)
        if late:
            logs = " and ".join(str(self._plane.log(program)) for program in programs_of(self._name))
            raise OperatorFailed(
                f"{self._name} does not publish the GPUs of {len(late)} of {len(self._fleet.nodes)} nodes ({', '.join(late[:3])} ...); "
                f"see its logs {logs}"
            )


def find_addons(names: Sequence[str]) -> dict[str, Addon]:
    """The add-ons of these operators; nothing is built. Raises one MissingComponents for all that are missing."""
    there: dict[str, Addon] = {}
    missing: list[MissingComponents] = []
    for name in names:
        try:
            there[name] = find_addon(name)
        except MissingComponents as error:
            missing.append(error)
    if missing:
        pins = tuple(pin for error in missing for pin in error.pins)
        raise MissingComponents("\n".join(map(str, missing)), pins)
    return there


class _Wiring:
    """Starts one operator for the API server of a plane."""

    def __init__(self, plane: Plane, cluster: Cluster, name: str, addon: Addon) -> None:
        self._plane = plane
        self._cluster = cluster
        self._name = name
        self._addon = addon
        self._operator = OPERATORS[name]

    def define(self) -> None:
        """Define its kinds, and create its namespace."""
        operator = self._operator
        if operator.port and not is_free_everywhere(operator.port):
            raise OperatorFailed(
                f"{self._name} can't be started: the port {operator.port} of this machine is in use (by another lab with this operator?), and the operator "
                "can't use another one; end that lab first"
            )
        self._apply_definitions()
        self._cluster.apply(namespace_object(operator.namespace))

    def run(self) -> None:
        """Start it, and return when it works."""
        with _raise_operator_failed():
            programs.on_free_ports(self._run)

    def _apply_definitions(self) -> None:
        names = []
        try:
            for definition in self._addon.manifests.objects(self._operator.definitions):
                if definition.get("kind") == CRD:
                    names.append(name_of(definition))
                    define_kind(self._cluster, definition)
            await_established(self._cluster, names)
        except (ConnectError, Unavailable) as error:
            raise OperatorFailed(f"the API server does not take the definitions of {self._name}: {error}") from None

    def _run(self) -> None:
        operator = self._operator
        folder = Path(self._plane.folder).absolute() / "operators" / self._name
        names = programs_of(self._name)
        webhook, *health = free_ports(1 + len(names))
        sites = [
            OperatorSite(operator.namespace, folder, webhook, port, self._plane.log(name))
            for name, port in zip(names, health, strict=True)
        ]
        if operator.webhooks:
            self._wire(sites[0])
        make_folder(folder)
        started = []
        with ExitStack() as meanwhile:
            for name, site in zip(names, sites, strict=True):
                plan = operator.load()(site)
                meanwhile.enter_context(plan.meanwhile())
                binary = self._addon.programs[name]
                started.append(Program(name, binary, plan.arguments, site.health, plan.works, plan.environment))
            programs.run_programs(self._plane, started)

    def _wire(self, site: OperatorSite) -> None:
        """Register the webhooks before the operator starts, because some operators wait for that. No lab sends objects yet."""
        operator = self._operator
        service = f"{operator.service}.{operator.namespace}.svc"
        server = webhook_server(site.certificates, site.webhook, service, operator.authority)
        if operator.secret:
            self._cluster.apply(server.secret(operator.namespace, operator.secret))
        # Operators with a Secret look for the names of their own kustomization. Names of the others are not unique.
        prefix = "" if operator.secret else f"{self._name}-"
        for webhook in server.called(apply_kustomization(self._addon.manifests, operator.webhooks), prefix):
            self._cluster.apply(webhook)


def define_kind(cluster: Cluster, definition: Object) -> None:
    """Create a CRD unless it exists. A busy server may take longer for a large one (some have 900 kB) than the timeout of a request.
    Raises ApiError."""
    if not object_exists(cluster, CRD, name_of(definition)):
        # Created, not applied: the annotation of an apply holds the whole object, and some exceed its size limit.
        (outcome,) = write_until_answered(cluster, [CreateWrite(definition)], _DEFINE_SECONDS)
        if outcome.error is not None:
            raise outcome.error


@contextmanager
def _raise_operator_failed() -> Iterator[None]:
    """Raise OperatorFailed in place of SchedulerFailed."""
    try:
        yield
    except SchedulerFailed as error:
        raise OperatorFailed(str(error)) from error
