"""Forks: copies of a lab in which anything can be tried.

    with lab.fork() as trial:
        trial.patch("Queue", "team-a", {"spec": {"resources": {"gpu": {"quota": 8}}}})
        trial.settle()

A fork is an embedded lab with the same objects (uids, times and status included), clock, settings and scheduler configuration. It has new
controllers and a new scheduler, with copies of the state that these keep beside objects: promises, refused binds, past use. So an
unchanged fork decides exactly what the lab would decide. (If the controllers of the lab have not read the latest objects yet, it decides
what the lab would decide after it is resumed from its file.) Nothing in a fork changes the lab. Lab and fork share objects, because no
cluster changes an object that it holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import structs

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.embedded.storage.store import Reference
from kailab.lab.cluster_copies import embedded_from
from kailab.lab.spec import LabSpec
from kailab.lab.venues import LabCluster
from kailab.lab.venues.embedded import EmbeddedVenue
from kailab.model.kinds import KINDS
from kailab.undertest.contract import SchedulerUnderTest

if TYPE_CHECKING:
    from kailab.scheduler import SchedulerSettings

OWN_SCHEDULER = "kailab"


def copy_lab(
    cluster: LabCluster, spec: LabSpec, settings: SchedulerSettings | None, without: Iterable[Reference]
) -> tuple[EmbeddedVenue, LabSpec]:
    """The venue and the spec of a fork. Of a lab on a real API server it copies the present objects. Kailab's own scheduler, with the same
    configuration, replaces one that only runs as processes beside a cluster; the spec names the scheduler. ``settings``: of the scheduler;
    None: as in the lab. ``without``: objects to leave out, with everything that only they own."""
    spec = _spec(spec)
    if settings is not None:
        spec = structs.replace(spec, config=settings.engine, usage=settings.usage)
    return EmbeddedVenue(_copied(cluster, without)), spec


def _copied(cluster: LabCluster, without: Iterable[Reference]) -> EmbeddedCluster:
    if isinstance(cluster, EmbeddedCluster):
        return cluster.fork(without)
    kinds = dict.fromkeys((*KINDS, *cluster.kinds()))
    found = {kind: cluster.list(kind) for kind in kinds if kind != "Event"}
    copied = embedded_from({kind: objects for kind, objects in found.items() if objects}, cluster.now())
    return copied.fork(without) if without else copied


def _spec(spec: LabSpec) -> LabSpec:
    if type(spec.under_test).within is not SchedulerUnderTest.within:
        return spec
    return structs.replace(spec, scheduler=OWN_SCHEDULER, kind=OWN_SCHEDULER, options={})
