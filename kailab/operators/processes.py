"""Manifests as their own kustomization makes them, as far as webhooks need it: its resources, and JSON patches that replace."""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tenacity

from kailab.cluster.answered import write_until_answered
from kailab.cluster.base import namespace
from kailab.cluster.controlplane.ports import free_ports, is_free_everywhere
from kailab.cluster.install import CRD, await_established
from kailab.cluster.protocol import Cluster, Object
from kailab.cluster.writes import Create
from kailab.components import DamagedComponent, Manifests
from kailab.errors import ConnectError, KailabError, NotFound, Unavailable
from kailab.model.private_files import make_folder
from kailab.operators.launching import OperatorSite
from kailab.operators.registry import OPERATORS
from kailab.undertest import programs
from kailab.undertest.contract import Plane, SchedulerFailed, Tell
from kailab.undertest.programs import PortTaken, Program
from kailab.undertest.webhooks import webhook_server

if TYPE_CHECKING:
    from kailab.components import Addon


def apply_kustomization(manifests: Manifests, folder: str) -> list[Object]:
    """The objects of a folder with a ``kustomization.yaml``, patched. Raises DamagedComponent for what can't be read so."""
    (recipe,) = manifests.objects(f"{folder}/kustomization.yaml")
    found = [one for file in recipe.get("resources") or () for one in manifests.objects(posixpath.join(folder, file))]
    for patch in recipe.get("patches") or ():
        file, target = posixpath.join(folder, patch["path"]), patch.get("target") or {}
        operations = [one for document in manifests.documents(file) for one in document]
        found = [apply_json_patch(one, operations, file) if _is_meant(one, target) else one for one in found]
    return found


def apply_json_patch(obj: Object, operations: list[dict[str, Any]], file: str) -> Object:
    """A copy with each operation (RFC 6902) carried out; ``file``: where they stand. Raises DamagedComponent for one that replaces
    nothing."""
    result = copy.deepcopy(obj)
    for operation in operations:
        *above, last = _steps(str(operation.get("path", "")))
        inside: Any = result
        try:
            for step in above:
                inside = inside[int(step) if isinstance(inside, list) else step]
            key = int(last) if isinstance(inside, list) else last
            if operation["op"] != "replace":
                raise KeyError(operation["op"])
            inside[key]  # what replaces must find something
            inside[key] = operation["value"]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise DamagedComponent(f"{file}: the patch {operation!r:.200} can't be carried out: {error!r}") from error
    return result


def _steps(path: str) -> Iterator[str]:
    return (step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:] or [""])


def _is_meant(obj: Object, target: Mapping[str, str]) -> bool:
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    own = {
        "group": group,
        "version": version,
        "kind": obj.get("kind"),
        "name": obj.get("metadata", {}).get("name"),
    }
    return all(own.get(key) == value for key, value in target.items())


# Operators as processes beside one plane: started with it, looked at, and ended with it.

_PORT_TRIES = 5
_DEFINE_SECONDS = 180.0


class OperatorFailed(KailabError):
    """An operator ended, or did not get to work. The text has its last words."""

    exit_code = 1


class Operators:
    """``names``: of ``OPERATORS``. Made anew for a plane at any time: what runs is known to the plane."""

    def __init__(self, plane: Plane, names: Sequence[str]) -> None:
        self._plane = plane
        self.names = tuple(names)

    @classmethod
    def of(cls, plane: Plane) -> Operators:
        """Those that the plane was given, whether they run or not."""
        there = {process.name for process in plane.processes()}
        return cls(plane, [name for name in OPERATORS if name in there])

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds whose objects are theirs to act on."""
        return tuple(kind for name in self.names for kind in OPERATORS[name].kinds)

    def start(self, cluster: Cluster, tell: Tell) -> None:
        """Define their kinds, start them, and return when all work. Raises MissingComponents, OperatorFailed."""
        addons = find_addons(self.names)
        for name in self.names:
            tell(f"starting the operator {name}")
            _Wiring(self._plane, cluster, name, addons[name]).start()

    def check(self) -> None:
        """Raises OperatorFailed, with its last words, if one has ended."""
        if self.names:
            with _told():
                programs.check_programs(self._plane, self.names)


def find_addons(names: Sequence[str]) -> dict[str, Addon]:
    """Their programs and manifests; nothing is built. Raises MissingComponents for all that are not here at once."""
    from kailab.components import MissingComponents, find_addon

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
    """One operator, and the API server that it is to serve."""

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
                f"{self._name} can't be started: the port {operator.port} of this machine is taken (by another lab with it?), and it "
                "serves there and nowhere else; end that lab first"
            )
        self._define()
        self._cluster.apply(namespace(operator.namespace))
        retry = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(_PORT_TRIES),
            retry=tenacity.retry_if_exception_type(PortTaken),
            reraise=True,
        )
        with _told():
            # With other ports for each try.
            retry(self._run)

    def _define(self) -> None:
        names = []
        try:
            for definition in self._addon.manifests.objects(self._operator.definitions):
                if definition.get("kind") == CRD:
                    names.append(definition["metadata"]["name"])
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
        """Before it starts, as some wait for this. No lab is here yet whose objects it would be asked about."""
        operator = self._operator
        service = f"{operator.service}.{operator.namespace}.svc"
        server = webhook_server(site.certificates, site.webhook, service, operator.authority)
        if operator.secret:
            self._cluster.apply(server.secret(operator.namespace, operator.secret))
        # Some find theirs by the name that their own kustomization gives; the others' have the same name.
        prefix = "" if operator.secret else f"{self._name}-"
        for one in server.called(apply_kustomization(self._addon.manifests, operator.webhooks), prefix):
            self._cluster.apply(one)


def define_kind(cluster: Cluster, definition: Object) -> None:
    """Create a CRD that is not there yet. A busy server takes longer over a large one (some have 900 kB) than a request waits for its
    answer. Raises ApiError."""
    try:
        cluster.get(CRD, definition["metadata"]["name"])
    except NotFound:
        # Not applied: the note that this leaves of the whole object is bounded, and some are larger.
        (outcome,) = write_until_answered(cluster, [Create(definition)], _DEFINE_SECONDS)
        if outcome.error is not None:
            raise outcome.error from None


@contextmanager
def _told() -> Iterator[None]:
    """What programs say as those of a scheduler, as the operator's."""
    try:
        yield
    except SchedulerFailed as error:
        raise OperatorFailed(str(error)) from error
