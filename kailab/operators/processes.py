"""Run operators as processes beside a control plane: define their kinds, register their webhooks, start, check and end them.

``Operators`` starts the operators of a plane by name (``kailab.operators.registry``). ``kailab.operators.launching`` has the flags and
configuration of each. Webhook manifests are taken from the operator's own kustomization: its resources, and JSON patches that replace.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tenacity

from kailab.cluster.base_objects import namespace
from kailab.cluster.controlplane.ports import free_ports, is_free_everywhere
from kailab.cluster.install import CRD, await_established
from kailab.cluster.polling import write_until_answered
from kailab.cluster.protocol import Cluster, object_exists
from kailab.cluster.writes import CreateWrite
from kailab.components import ComponentManifests, DamagedComponent, MissingComponents, find_addon
from kailab.errors import ConnectError, InputError, KailabError, Unavailable
from kailab.model.objects import Object, name_of
from kailab.model.patches import json_patch
from kailab.model.private_files import make_folder
from kailab.operators.launching import OperatorSite
from kailab.operators.registry import OPERATORS
from kailab.undertest import programs
from kailab.undertest.contract import Plane, SchedulerFailed, Tell
from kailab.undertest.programs import PortTaken, Program
from kailab.undertest.webhooks import webhook_server

if TYPE_CHECKING:
    from kailab.components import Addon


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


_PORT_TRIES = 5
_DEFINE_SECONDS = 180.0


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
        return cls(plane, [name for name in OPERATORS if name in there])

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds that these operators act on."""
        return tuple(kind for name in self.names for kind in OPERATORS[name].kinds)

    def start(self, cluster: Cluster, tell: Tell) -> None:
        """Define the operators' kinds, start them, and return when all work. Raises MissingComponents, OperatorFailed."""
        addons = find_addons(self.names)
        for name in self.names:
            tell(f"starting the operator {name}")
            _Wiring(self._plane, cluster, name, addons[name]).start()

    def check(self) -> None:
        """Raises OperatorFailed with the last lines of its log if an operator has ended."""
        if self.names:
            with _raise_operator_failed():
                programs.check_programs(self._plane, self.names)


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

    def start(self) -> None:
        operator = self._operator
        if operator.port and not is_free_everywhere(operator.port):
            raise OperatorFailed(
                f"{self._name} can't be started: the port {operator.port} of this machine is in use (by another lab with this operator?), and the operator "
                "can't use another one; end that lab first"
            )
        self._define()
        self._cluster.apply(namespace(operator.namespace))
        retry = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(_PORT_TRIES),
            retry=tenacity.retry_if_exception_type(PortTaken),
            reraise=True,
        )
        with _raise_operator_failed():
            # Each try uses other ports.
            retry(self._run)

    def _define(self) -> None:
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
        webhook, health = free_ports(2)
        site = OperatorSite(folder, webhook, health, self._plane.log(self._name))
        if operator.webhooks:
            self._wire(site)
        make_folder(folder)
        started = operator.load()(site)
        binary = self._addon.programs[self._name]
        program = Program(self._name, binary, started.arguments, health, started.works, started.environment)
        with started.meanwhile():
            programs.run_programs(self._plane, [program])

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
