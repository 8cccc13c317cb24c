"""A kind of workload: a Squad is a number of equal pods that start together or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from kailab.grouping.default import default_grouping
from kailab.grouping.family import Context, Family
from kailab.grouping.fields import integer
from kailab.grouping.records import Plan
from kailab.model.defaults import spec_defaults
from kailab.model.kind import AGE, NAME, Column, Kind
from kailab.model.objects import Object, is_active, is_terminating
from kailab.model.validation.core import shape
from kailab.model.validation.shapes import PODS, Check, record, with_spec
from kailab.workloads.controller import Controller


class SquadController(Controller):
    """Keeps as many pods as the squad wants."""

    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        pods = [pod for pod in self._bench.owned(owner, "Pod") if is_active(pod)]
        wanted = owner["spec"]["replicas"]
        for pod in pods[wanted:]:
            self._bench.delete("Pod", pod)
        for number in range(len(pods), wanted):
            self._bench.create_pod(owner, owner["spec"]["template"], name=f"{owner['metadata']['name']}-{number}")
        self._bench.set_status(self.kind, owner, members=wanted)


def squad_shape() -> Check:
    return with_spec(record({"replicas": PODS, "template": shape("V1PodTemplateSpec")}, ("template",)))


def squad_plan(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    """One PodGroup for all its pods, which are useful only together."""
    grouping = default_grouping(top, pod, (), context)
    grouping.min_member = integer(top, "spec", "replicas") or 1
    return Plan(grouping)


SQUAD = Kind(
    group="acme.example.com",
    kind="Squad",
    versions=("v1",),
    plural="squads",
    short=("sq",),
    defaults=spec_defaults({"replicas": 2}),
    shape=squad_shape,
    immutable=("spec.template",),
    controller=SquadController,
    grouping=Family("squad", squad_plan),
    columns=(NAME, Column("MEMBERS", "status.members"), AGE),
    field_names=("members",),
    in_all=True,
    scalable=True,
)
