"""Controllers of Grove: PodCliqueSet, PodCliqueScalingGroup, PodClique and ClusterTopologyBinding.

A replica of a PodCliqueSet has a PodClique for each clique of the template, and a PodCliqueScalingGroup for each scaling group, whose
replicas have the cliques that it names. A PodClique has pods of one pod spec.

Pods that start together are those of a PodGang, which KAI's pod grouper reads: the base gang of a replica has the cliques outside of
scaling groups and the first ``minAvailable`` replicas of each scaling group; each further replica of a scaling group is a gang of its own.
Pods have a scheduling gate until all pods of their gang exist and the PodGang names them, and in a further replica until the base gang is
scheduled. Source: Grove, operator/internal/controller (podcliqueset/components/podgang, podclique/components/pod).

A ClusterTopologyBinding gives the names of a PodCliqueSet's topology domains, and is a KAI Topology of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from kailab.cluster.protocol import WatchEvent
from kailab.model.objects import (
    Object,
    annotations_of,
    is_ready,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    object_key,
    status_of,
)
from kailab.model.validation.advice import DescribedPod
from kailab.model.validation.fields import Faults
from kailab.workloads.apps import (
    TAKEN_OVER,
    TEMPLATE,
    annotate_revision,
    most_carried,
    revision_of,
    surplus_pods,
    template_hash,
)
from kailab.workloads.controller import Controller, Reference

PREFIX = "grove.io/"
GATE = "grove.io/podgang-pending-creation"
_PART_OF = "app.kubernetes.io/part-of"
_GROUP, _GROUP_REPLICA = f"{PREFIX}podcliquescalinggroup", f"{PREFIX}podcliquescalinggroup-replica-index"
_REPLICA, _CLIQUE = f"{PREFIX}podcliqueset-replica-index", f"{PREFIX}podclique"
_GANG, _BASE = f"{PREFIX}podgang", f"{PREFIX}base-podgang"
_INDEX, _HASH = f"{PREFIX}podclique-pod-index", f"{PREFIX}pod-template-hash"


def check_pod_clique_set(faults: Faults, obj: Object) -> None:
    """Check that scaling groups name cliques of the template, and each clique at most once."""
    spec = obj.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(template, dict):
        return
    path = "spec.template"
    cliques = [clique.get("name") for _, clique in faults.mappings(template, "cliques", f"{path}.cliques")]
    if not cliques:
        faults.add(f"{path}.cliques", "is empty; expected at least one clique")
    grouped: set[object] = set()
    for where, group in faults.mappings(template, "podCliqueScalingGroups", f"{path}.podCliqueScalingGroups"):
        names = group.get("cliqueNames")
        for name in names if isinstance(names, list) else ():
            if not isinstance(name, str):
                continue  # the shape says so
            if name not in cliques:
                faults.add(
                    f"{where}.cliqueNames", f"names {name!r:.80}; expected one of {', '.join(map(str, cliques))}"
                )
            elif name in grouped:
                faults.add(f"{where}.cliqueNames", f"names {name!r:.80}, which is in another scaling group, too")
            grouped.add(name)
        least, replicas = group.get("minAvailable", 1), group.get("replicas", 1)
        if isinstance(least, int) and isinstance(replicas, int) and least > replicas:
            faults.add(f"{where}.minAvailable", f"is {least}; expected at most the {replicas} replicas")


class Clique(NamedTuple):
    """A PodClique that there should be. ``gang``: the name of its PodGang; ``base``: of the gang that is scheduled first; empty for none."""

    name: str
    template: Object
    gang: str
    base: str = ""


class Gang(NamedTuple):
    """A PodGang that there should be. ``constraint``: its topology constraint; ``groups``: scaling groups' replicas with a constraint, and the
    names of their cliques."""

    name: str
    base: str
    cliques: list[Clique]
    constraint: Object | None
    groups: list[tuple[str, list[str], Object]]


def pods_of_set(obj: Object) -> Iterator[DescribedPod]:
    for index, clique in enumerate(obj["spec"]["template"].get("cliques") or ()):
        path, own = f"spec.template.cliques[{index}].", clique.get("spec") or {}
        yield _described(clique, own.get("podSpec"), path, f"{path}spec.podSpec.")


def pods_of_clique(obj: Object) -> Iterator[DescribedPod]:
    yield _described(obj["metadata"], obj["spec"].get("podSpec"), "metadata.", "spec.podSpec.")


def _described(holder: Object, pod_spec: Object | None, metadata: str, spec: str) -> DescribedPod:
    marks = {key: holder[key] for key in ("labels", "annotations") if holder.get(key)}
    return DescribedPod(metadata, spec, {"metadata": marks, "spec": pod_spec or {}})


def replicas_of(template: Object) -> int:
    """Pods of a clique of the template; 0 counts as missing, as in Grove's webhook."""
    return int(template["spec"].get("replicas") or 1)


def least_of(template: Object) -> int:
    """The pods of a clique that start together."""
    least = template["spec"].get("minAvailable")
    return replicas_of(template) if least is None else int(least)


def fixed_of_pod_clique_set(stored: Object, obj: Object) -> Object:
    """The set with the parts alone that Grove's webhook never lets change: which cliques and scaling groups there are, and their gangs.
    The order of cliques counts if they start in it. Source: Grove's validatePodCliqueSetTemplateSpecUpdate."""
    before, template = stored["spec"]["template"], obj["spec"]["template"]
    startup = template.get("cliqueStartupType") or "CliqueStartupTypeAnyOrder"
    least = {clique["name"]: least_of(clique) for clique in before["cliques"]}
    cliques = [
        {
            "name": clique["name"],
            "topologyConstraint": clique.get("topologyConstraint"),
            "roleName": clique["spec"].get("roleName"),
            "startsAfter": clique["spec"].get("startsAfter"),
            # A server has the default from the creation on.
            "minAvailable": clique["spec"].get("minAvailable", least.get(clique["name"])),
        }
        for clique in template["cliques"]
    ]
    if startup == "CliqueStartupTypeAnyOrder":
        cliques.sort(key=itemgetter("name"))
    groups = [
        {
            "name": group["name"],
            "topologyConstraint": group.get("topologyConstraint"),
            "cliqueNames": group["cliqueNames"],
            "minAvailable": group.get("minAvailable", 1),
        }
        for group in template.get("podCliqueScalingGroups") or ()
    ]
    kept = {
        "cliques": cliques,
        "cliqueStartupType": startup,
        "podCliqueScalingGroups": sorted(groups, key=itemgetter("name")),
        "topologyConstraint": template.get("topologyConstraint") or {},
    }
    return {**obj, "spec": {**obj["spec"], "template": kept}}


def scaling_groups(spec: Object) -> list[Object]:
    return list(spec["template"].get("podCliqueScalingGroups") or ())


def outside_of_groups(spec: Object) -> list[Object]:
    """The cliques of a PodCliqueSet's template that no scaling group names."""
    grouped = {name for group in scaling_groups(spec) for name in group["cliqueNames"]}
    return [clique for clique in spec["template"]["cliques"] if clique["name"] not in grouped]


def _members(owner: Object, group: Object) -> list[Object]:
    return [clique for clique in owner["spec"]["template"]["cliques"] if clique["name"] in group["cliqueNames"]]


def _managed(owner: Object) -> dict[str, str]:
    return {"app.kubernetes.io/managed-by": "grove-operator", _PART_OF: name_of(owner)}


class _CliqueController(Controller):
    """What PodCliqueSets and PodCliqueScalingGroups have in common: they own PodCliques."""

    def _keep_cliques(
        self, owner: Object, pod_clique_set: Object, wanted: dict[str, Clique], marks: dict[str, Any]
    ) -> None:
        """Create, change and delete the owner's PodCliques. ``marks``: labels by PodClique."""
        bench = self._bench
        there = {name_of(clique): clique for clique in bench.owned(owner, "PodClique")}
        bench.delete("PodClique", *(clique for name, clique in there.items() if name not in wanted))
        for name, clique in wanted.items():
            given = clique.template["spec"]
            labels = {
                **(clique.template.get("labels") or {}),
                **_managed(pod_clique_set),
                **marks[name],
                _GANG: clique.gang,
            }
            if clique.base:
                labels[_BASE] = clique.base
            spec = {**given, "replicas": replicas_of(clique.template), "minAvailable": least_of(clique.template)}
            old, digest = there.get(name), template_hash(given)
            note = {TEMPLATE: digest}
            if old is None:
                annotations = {**(clique.template.get("annotations") or {}), **note}
                metadata = {"name": name, "labels": labels, "annotations": annotations}
                bench.create(owner, "PodClique", {"metadata": metadata, "spec": spec})
            # Its replicas may have been scaled since it was made, so they change with the template only.
            elif (known := annotations_of(old).get(TEMPLATE)) != digest:
                changes = {} if known is None else {"spec": spec}
                bench.patch("PodClique", old, {"metadata": {"annotations": note}, **changes})


class PodCliqueSetController(_CliqueController):
    def concerned(self, event: WatchEvent) -> list[Reference]:
        """All PodCliqueSets, because any may use a topology."""
        return [(self.kind, object_key(owner)) for owner in self._bench.cluster.list(self.kind)]

    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, spec = self._bench, owner["spec"]
        cliques: dict[str, Clique] = {}
        marks: dict[str, Any] = {}
        groups: dict[str, Object] = {}
        for replica in range(spec["replicas"]):
            base = f"{name_of(owner)}-{replica}"
            for template in outside_of_groups(spec):
                name = f"{base}-{template['name']}"
                cliques[name] = Clique(name, template, base)
                marks[name] = {_REPLICA: str(replica)}
            groups |= {f"{base}-{group['name']}": {**group, _REPLICA: str(replica)} for group in scaling_groups(spec)}
        self._keep_cliques(owner, owner, cliques, marks)
        self._keep_groups(owner, groups)
        gangs = list(self._gangs(owner))
        there = {name_of(gang): gang for gang in bench.owned(owner, "PodGang")}
        bench.delete("PodGang", *(gang for name, gang in there.items() if name not in {each.name for each in gangs}))
        scheduled = {gang.name: self._keep_gang(owner, gang, there.get(gang.name)) for gang in gangs}
        for gang in gangs:
            if scheduled[gang.name] is not None and (not gang.base or scheduled.get(gang.base)):
                self._open_gates(owner, gang)
        available = sum(bool(scheduled[gang.name]) for gang in gangs if not gang.base)
        self.set_status(owner, replicas=spec["replicas"], availableReplicas=available)

    def _keep_groups(self, owner: Object, wanted: dict[str, Object]) -> None:
        bench = self._bench
        there = {name_of(group): group for group in bench.owned(owner, "PodCliqueScalingGroup")}
        bench.delete("PodCliqueScalingGroup", *(group for name, group in there.items() if name not in wanted))
        for name, group in wanted.items():
            if name in there:
                # The replicas are a user's, or an autoscaler's, once it exists. A new template reaches its cliques.
                bench.wake(there[name])
                continue
            labels = {**_managed(owner), _REPLICA: group[_REPLICA], _GROUP: name}
            bench.create(owner, "PodCliqueScalingGroup", {
                "metadata": {"name": name, "labels": labels, "annotations": dict(group.get("annotations") or {})},
                "spec": {"replicas": group.get("replicas", 1), "minAvailable": group.get("minAvailable", 1),
                         "cliqueNames": group["cliqueNames"]},
            })  # fmt: skip

    def _gangs(self, owner: Object) -> Iterator[Gang]:
        """The gangs of all replicas, base gangs first."""
        spec = owner["spec"]
        scaled: list[Gang] = []
        whole = spec["template"].get("topologyConstraint")
        for replica in range(spec["replicas"]):
            base = f"{name_of(owner)}-{replica}"
            cliques = [Clique(f"{base}-{template['name']}", template, base) for template in outside_of_groups(spec)]
            constrained: list[tuple[str, list[str], Object]] = []
            for group in scaling_groups(spec):
                name, least = f"{base}-{group['name']}", group.get("minAvailable", 1)
                current = self._bench.find("PodCliqueScalingGroup", (namespace_of(owner), name))
                replicas = current["spec"]["replicas"] if current else group.get("replicas", 1)
                own = group.get("topologyConstraint")
                for number in range(replicas):
                    members = group_cliques(owner, group, name, number, base)
                    if number >= least:
                        scaled.append(Gang(members[0].gang, base, members, own or whole, []))
                        continue
                    cliques += members
                    if own:
                        constrained.append((f"{name}-{number}", [member.name for member in members], own))
            yield Gang(base, "", cliques, whole, constrained)
        yield from scaled

    def _keep_gang(self, owner: Object, gang: Gang, old: Object | None) -> bool | None:
        """Write a PodGang. Returns None while pods of it are missing, then whether the least number of each clique is scheduled."""
        bench = self._bench
        pods = [self._pods(owner, clique.name) for clique in gang.cliques]
        complete = all(len(of) >= self._replicas(owner, clique) for clique, of in zip(gang.cliques, pods, strict=True))
        levels = self._levels(owner)
        entries = []
        for clique, of in zip(gang.cliques, pods, strict=True):
            references = [{"namespace": namespace_of(owner), "name": name} for name in sorted(map(name_of, of))]
            # While pods are missing, those that were named before stay named.
            before: Object = next(
                (e for e in (old or {}).get("spec", {}).get("podgroups") or () if e["name"] == clique.name), {}
            )
            entries.append({
                "name": clique.name,
                "minReplicas": least_of(clique.template),
                "podReferences": references if complete else before.get("podReferences", []),
                **_constraint(clique.template.get("topologyConstraint"), levels),
            })  # fmt: skip
        spec: Object = {"podgroups": entries, **_constraint(gang.constraint, levels)}
        if configs := [
            {"name": name, "podGroupNames": names, **_constraint(own, levels)} for name, names, own in gang.groups
        ]:
            spec["topologyConstraintGroupConfigs"] = configs
        if named := owner["spec"]["template"].get("priorityClassName"):
            spec["priorityClassName"] = named
        annotations = {key: value for key, value in annotations_of(owner).items() if not key.startswith(PREFIX)}
        if levels:
            annotations[f"{PREFIX}topology-name"] = _topology_name(owner)
        labels = {key: value for key, value in labels_of(owner).items() if not key.startswith(PREFIX)}
        labels |= {**_managed(owner), "app.kubernetes.io/component": "podgang"}
        if old is None:
            bench.create(owner, "PodGang", {
                "metadata": {"name": gang.name, "labels": labels, "annotations": annotations}, "spec": spec,
            })  # fmt: skip
        elif old["spec"] != spec or labels_of(old) != labels or annotations_of(old) != annotations:
            metadata = {
                "labels": {**dict.fromkeys(labels_of(old)), **labels},
                "annotations": {**dict.fromkeys(annotations_of(old)), **annotations},
            }
            bench.patch("PodGang", old, {"metadata": metadata, "spec": spec})
        if not complete:
            return None
        return all(
            sum(bool(node_of(pod)) for pod in of) >= least_of(clique.template)
            for clique, of in zip(gang.cliques, pods, strict=True)
        )

    def _replicas(self, owner: Object, clique: Clique) -> int:
        current = self._bench.find("PodClique", (namespace_of(owner), clique.name))
        return int(current["spec"]["replicas"] if current else replicas_of(clique.template))

    def _pods(self, owner: Object, clique: str) -> list[Object]:
        current = self._bench.find("PodClique", (namespace_of(owner), clique))
        return [pod for pod in self._bench.owned(current, "Pod") if not is_terminating(pod)] if current else []

    def _open_gates(self, owner: Object, gang: Gang) -> None:
        for clique in gang.cliques:
            for pod in self._pods(owner, clique.name):
                gates = pod["spec"].get("schedulingGates") or ()
                if any(gate["name"] == GATE for gate in gates):
                    left = [gate for gate in gates if gate["name"] != GATE]
                    self._bench.patch("Pod", pod, {"spec": {"schedulingGates": left or None}})

    def _levels(self, owner: Object) -> dict[str, str]:
        """Node labels by the domain that a topology constraint may name."""
        binding = self._bench.find("ClusterTopologyBinding", ("", _topology_name(owner)))
        return {level["domain"]: level["key"] for level in binding["spec"]["levels"]} if binding else {}


def group_cliques(owner: Object, group: Object, name: str, number: int, base: str) -> list[Clique]:
    """The cliques of a replica of a scaling group. ``name``: of the PodCliqueScalingGroup; ``base``: the base gang of its replica."""
    least = group.get("minAvailable", 1)
    gang, first = (base, "") if number < least else (f"{name}-{number - least}", base)
    return [Clique(f"{name}-{number}-{clique['name']}", clique, gang, first) for clique in _members(owner, group)]


def _topology_name(owner: Object) -> str:
    """The topology that the constraints of a PodCliqueSet are about; empty if none names one."""
    template = owner["spec"]["template"]
    for holder in (template, *scaling_groups(owner["spec"]), *template["cliques"]):
        if named := (holder.get("topologyConstraint") or {}).get("topologyName"):
            return str(named)
    return ""


def _constraint(given: Object | None, levels: dict[str, str]) -> Object:
    """The constraint in a PodGang; empty if its domains are not known, as in Grove."""
    pack = {**((given or {}).get("pack") or {})}
    pack.setdefault("required", (given or {}).get("packDomain"))
    found = {name: levels[pack[name]] for name in ("required", "preferred") if pack.get(name) in levels}
    return {"topologyConstraint": {"packConstraint": found}} if found else {}


class PodCliqueScalingGroupController(_CliqueController):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        above = self._bench.find("PodCliqueSet", (namespace_of(owner), labels_of(owner).get(_PART_OF, "")))
        if above is None:
            return
        replica = labels_of(owner).get(_REPLICA, "0")
        base = f"{name_of(above)}-{replica}"
        wanted: dict[str, Clique] = {}
        marks: dict[str, Any] = {}
        for number in range(owner["spec"]["replicas"]):
            for clique in group_cliques(above, owner["spec"], name_of(owner), number, base):
                wanted[clique.name] = clique
                marks[clique.name] = {_REPLICA: replica, _GROUP: name_of(owner), _GROUP_REPLICA: str(number)}
        self._keep_cliques(owner, above, wanted, marks)
        before = status_of(owner).get("replicas")
        self.set_status(owner, replicas=owner["spec"]["replicas"])
        if before != owner["spec"]["replicas"]:
            self._bench.wake(above)


class PodCliqueController(Controller):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, spec, name = self._bench, owner["spec"], name_of(owner)
        digest = template_hash(spec["podSpec"])
        digest = revision_of(owner, digest, digest)
        pods = [pod for pod in bench.owned(owner, "Pod") if not is_terminating(pod)]
        bench.delete("Pod", *surplus_pods(pods, spec["replicas"]))
        taken = {labels_of(pod).get(_INDEX) for pod in bench.owned(owner, "Pod")}
        free = (number for number in range(len(taken) + spec["replicas"]) if str(number) not in taken)
        gates = [*(spec["podSpec"].get("schedulingGates") or ()), {"name": GATE}]
        for _, index in zip(range(spec["replicas"] - len(pods)), free, strict=False):
            labels = {**labels_of(owner), _CLIQUE: name, _INDEX: str(index), _HASH: digest}
            notes = {key: value for key, value in annotations_of(owner).items() if key not in (TEMPLATE, TAKEN_OVER)}
            template = {"metadata": {"annotations": notes}, "spec": spec["podSpec"]}
            domain = f"{labels_of(owner).get(_PART_OF, name)}-{labels_of(owner).get(_REPLICA, '0')}"
            changes = {"schedulingGates": gates, "hostname": f"{name}-{index}", "subdomain": domain}
            if bench.create_pod(owner, template, labels=labels, spec=changes) is None:
                break
        self._update(owner, digest)
        now = [pod for pod in bench.owned(owner, "Pod") if not is_terminating(pod)]
        before = status_of(owner)
        after = self.set_status(
            owner,
            replicas=len(now),
            readyReplicas=sum(map(is_ready, now)),
            scheduledReplicas=sum(bool(node_of(pod)) for pod in now),
            scheduleGatedReplicas=sum(bool(pod["spec"].get("schedulingGates")) for pod in now),
        )
        # The PodCliqueSet names new pods in their PodGang, and opens the gates.
        above = bench.find("PodCliqueSet", (namespace_of(owner), labels_of(owner).get(_PART_OF, "")))
        if above is not None and (status_of(after) != before or any(pod["spec"].get("schedulingGates") for pod in now)):
            bench.wake(above)

    def _update(self, owner: Object, digest: str) -> None:
        """Replace a pod of an older template: an unready pod first, a ready one only while all are ready."""
        pods = [pod for pod in self._bench.owned(owner, "Pod") if not is_terminating(pod)]
        older = sorted((pod for pod in pods if labels_of(pod).get(_HASH) != digest), key=is_ready)
        if older and (not is_ready(older[0]) or all(map(is_ready, pods))):
            self._bench.delete("Pod", older[0])


def annotate_pods_revision(owner: Object, pods: Iterable[Object]) -> Object:
    """A PodClique of another cluster, with the annotation of ``annotate_revision``; ``pods``: its pods."""
    marked = (pod for pod in pods if labels_of(pod).get(_HASH))
    return annotate_revision(owner, most_carried(marked, _HASH), "podSpec")


class ClusterTopologyBindingController(Controller):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench = self._bench
        levels = [{"nodeLabel": level["key"]} for level in owner["spec"]["levels"]]
        topology = bench.find("Topology", ("", name_of(owner)))
        # Its levels never change, so another Topology takes its place.
        if topology is not None and topology["spec"]["levels"] != levels and bench.owned(owner, "Topology"):
            bench.delete("Topology", topology)
            topology = bench.find("Topology", ("", name_of(owner)))
        if topology is None:
            bench.create(owner, "Topology", {"metadata": {"name": name_of(owner)}, "spec": {"levels": levels}})
