"""KAI as its chart installs it, for a plane: no process of it is ours, it runs as pods of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

from kailab.cluster.connected import connected
from kailab.cluster.helm import Helm, find_helm
from kailab.cluster.install import install
from kailab.cluster.protocol import Cluster, Object
from kailab.scheduler import settings_of
from kailab.undertest.contract import Beside, Plane, SchedulerFailed, Start, TakesImages, Tell, Unsupported
from kailab.undertest.kai.chart import standing
from kailab.undertest.kai.chart.installation import Installation, take_out
from kailab.undertest.kai.chart.source import ChartSource, find_chart
from kailab.undertest.kai.settings import WHO, kai_settings


class KaiInstalled(Beside):
    """``release``: with its ``v``. ``folder``: see ``find_chart``."""

    def __init__(self, plane: Plane, release: str, folder: str | None = None) -> None:
        self._plane = plane
        self._release = release
        self._folder = folder
        self._prepared = False

    @cached_property
    def _source(self) -> ChartSource:
        return find_chart(self._release, self._folder)

    @cached_property
    def _helm(self) -> Helm:
        return helm_for(self._plane)

    @cached_property
    def _installation(self) -> Installation:
        return Installation(self._helm, self._source)

    def prepare(self, cluster: Cluster) -> None:
        """Once, before it is installed; and again where another that decided meanwhile took it out. Raises InputError where a KAI is
        there that is no lab's."""
        if not self._prepared or standing.installed_release(cluster) != self._release:
            self._installation.prepare(cluster)
            self._prepared = True

    def start(self, cluster: Cluster, start: Start, tell: Tell = lambda _: None) -> None:
        flags = self._flags(start)
        self.prepare(cluster)
        self._installation.put_in(cluster, flags, lambda: self._load(tell), tell)

    def _flags(self, start: Start) -> Mapping[str, str]:
        """Raises Unsupported."""
        wanted = kai_settings(start.settings, self._source.dialect)
        usual = kai_settings(settings_of(None), self._source.dialect)
        if wanted.conf != usual.conf:
            raise Unsupported(
                "actions and plugins other than those that KAI's chart has", f"{WHO} installed by its chart"
            )
        pairs = (flag.removeprefix("--").partition("=") for flag in wanted.flags)
        return {name: value for name, _, value in pairs}

    def _load(self, tell: Tell) -> None:
        archives = [one.path for one in self._source.archives]
        if archives and isinstance(self._plane, TakesImages):
            tell(f"giving the nodes {len(archives)} image archives")
            self._plane.load_images(archives)

    def check(self) -> None:
        with _connected(self._plane) as cluster:
            if why := standing.failing(cluster):
                raise SchedulerFailed(f"KAI {self._release} does not run: {why}")

    def stop(self) -> None:
        """Its kinds and classes go with it, which the labs after this one need all the same: those of labs take their place. Raises
        SchedulerFailed where something of it stays."""
        self._taken_out(lambda cluster: install(cluster))

    def end(self) -> None:
        """Raises SchedulerFailed where something of it stays."""
        self._taken_out(lambda _: None)

    def _taken_out(self, then: Callable[[Cluster], None]) -> None:
        self._prepared = False
        with _connected(self._plane) as cluster:
            if standing.installed_release(cluster) == self._release:
                take_out(cluster, self._helm)
                then(cluster)

    @property
    def names(self) -> Sequence[str]:
        return ()

    def version(self) -> str:
        return f"kai {self._release} (by its chart)"

    def passes_over(self, objects: Sequence[Object]) -> Sequence[str]:
        return tuple(dict.fromkeys(word for obj in objects for word in self._source.dialect.passes_over(obj)))


def check_chart(release: str, folder: str | None = None) -> None:
    """Before anything is started: Helm, the chart, its images. Raises InputError, ConnectError."""
    Installation(Helm(find_helm()), find_chart(release, folder)).check()


def helm_for(plane: Plane) -> Helm:
    """Raises ConnectError where there is none."""
    return Helm(find_helm(), Path(plane.kubeconfig).absolute(), getattr(plane, "context", None))


def _connected(plane: Plane) -> AbstractContextManager[Cluster]:
    return connected(plane.kubeconfig, getattr(plane, "context", None), "kai-chart")
