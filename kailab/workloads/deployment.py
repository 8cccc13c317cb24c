"""Deployment: one ReplicaSet per pod template, the newest scaled up as the older ones go down."""

from __future__ import annotations

import math
from typing import Any

from kailab.cluster.protocol import Object
from kailab.model.quantities import counted
from kailab.workloads.bench import condition, set_conditions
from kailab.workloads.controller import Controller
from kailab.workloads.revisions import revision_of, template_hash

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


def share(value: Any, of: int, *, up: bool) -> int:
    """A count or a percentage of ``of``, rounded up or down."""
    if isinstance(value, str) and value.endswith("%"):
        exact = of * int(value[:-1]) / 100
        return math.ceil(exact) if up else math.floor(exact)
    return int(value)


class DeploymentController(Controller):
    def sync(self, owner: Object) -> None:
        if "deletionTimestamp" in owner["metadata"]:
            return
        bench, spec = self._bench, owner["spec"]
        sets = bench.owned(owner, "ReplicaSet")
        digest = template_hash(spec["template"])
        # Brought about anew from evidence, which keeps a part of the template, it has a note of the hash of the whole one.
        digest = revision_of(owner, digest, digest)
        name = f"{owner['metadata']['name']}-{digest}"
        current = _current(owner, name, sets)
        older = [rs for rs in sets if rs is not current]
        if not spec.get("paused"):
            recreate = (spec.get("strategy") or {}).get("type") == "Recreate"
            waiting = recreate and self._wind_down(older)
            if current is None and not waiting:
                current = self._create(
                    owner, name, digest, sets, 0 if older and not recreate else spec.get("replicas", 1)
                )
            if current is not None:
                current = self._renumber(owner, current, older)
            if current is not None and not recreate:
                self._roll(owner, current, older)
            elif current is not None:
                self._scale(current, spec.get("replicas", 1))
            self._forget(owner, older)
        elif current is not None and not older:
            self._scale(current, spec.get("replicas", 1))
        self._report(owner, name)

    def _create(self, owner: Object, name: str, digest: str, sets: list[Object], replicas: int) -> Object | None:
        spec = owner["spec"]
        template = spec["template"]
        meta = template.get("metadata") or {}
        labelled = {**template, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), HASH: digest}}}
        selector = spec["selector"]
        selector = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: digest}}
        notes = {
            key: value
            for key, value in (owner["metadata"].get("annotations") or {}).items()
            # kubectl's copy of what was applied is about the Deployment, and large.
            if not key.startswith("kubectl.kubernetes.io/")
        }
        revision = str(1 + max((_revision(rs) for rs in sets), default=0))
        return self._bench.create(owner, "ReplicaSet", {
            "metadata": {"name": name, "labels": labelled["metadata"]["labels"], "annotations": {**notes, REVISION: revision}},
            "spec": {"replicas": replicas, "selector": selector, "template": labelled},
        })  # fmt: skip

    def _renumber(self, owner: Object, current: Object, older: list[Object]) -> Object:
        """A template used again becomes the newest revision; the Deployment carries its number."""
        newest = max((_revision(rs) for rs in older), default=0)
        if _revision(current) <= newest:
            current = self._bench.patch(
                "ReplicaSet", current, {"metadata": {"annotations": {REVISION: str(newest + 1)}}}
            )
        return current

    def _scale(self, replica_set: Object, replicas: int) -> None:
        if replica_set["spec"].get("replicas") != replicas:
            self._bench.patch("ReplicaSet", replica_set, {"spec": {"replicas": replicas}})

    def _wind_down(self, older: list[Object]) -> bool:
        """Scale the older sets to nothing; true while pods of theirs are left."""
        for rs in older:
            self._scale(rs, 0)
        return any(self._bench.owned(rs, "Pod") for rs in older)

    def _roll(self, owner: Object, current: Object, older: list[Object]) -> None:
        spec = owner["spec"]
        wanted = spec.get("replicas", 1)
        alive = [rs for rs in older if rs["spec"].get("replicas", 0) or (rs.get("status") or {}).get("replicas", 0)]
        if not alive:
            self._scale(current, wanted)
            return
        rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
        surge = share(rolling.get("maxSurge", "25%"), wanted, up=True)
        missing = share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
        # As Kubernetes' ResolveFenceposts: percentages of few replicas may both come to 0, and nothing could ever move.
        if surge == missing == 0:
            missing = 1
        there = current["spec"]["replicas"]
        total = there + sum(rs["spec"].get("replicas", 0) for rs in alive)
        if there > wanted:
            self._scale(current, wanted)
        elif there < wanted and total < wanted + surge:
            there = min(wanted, there + wanted + surge - total)
            # One change a look. The pods that it makes have to show in the status before the older sets may shrink.
            self._scale(current, there)
            return
        ready_now = (current.get("status") or {}).get("availableReplicas", 0)
        # What is removed may not take the number of pods that are ready below this.
        least = wanted - missing
        removable = sum(rs["spec"].get("replicas", 0) for rs in alive) - max(0, least - ready_now)
        # New pods that are not ready yet don't make up for old ones.
        not_ready = there - min(ready_now, there)
        removable = min(removable, total - least - not_ready)
        for rs in alive:  # the pods that do not run cost nothing to lose
            idle = rs["spec"].get("replicas", 0) - (rs.get("status") or {}).get("availableReplicas", 0)
            cut = min(max(idle, 0), max(removable, 0))
            if cut:
                removable -= cut
                self._scale(rs, rs["spec"]["replicas"] - cut)
                return
        for rs in alive:
            cut = min(rs["spec"].get("replicas", 0), max(removable, 0))
            if cut:
                removable -= cut
                self._scale(rs, rs["spec"]["replicas"] - cut)

    def _forget(self, owner: Object, older: list[Object]) -> None:
        idle = [rs for rs in older if not rs["spec"].get("replicas") and not (rs.get("status") or {}).get("replicas")]
        excess = len(idle) - owner["spec"].get("revisionHistoryLimit", 10)
        for rs in sorted(idle, key=_revision)[: max(excess, 0)]:
            self._bench.delete("ReplicaSet", rs)

    def _report(self, owner: Object, name: str) -> None:
        bench = self._bench
        wanted = owner["spec"].get("replicas", 1)
        sets = bench.owned(owner, "ReplicaSet")
        current = _current(owner, name, sets)
        if current is not None:
            name = current["metadata"]["name"]
            revision = current["metadata"]["annotations"].get(REVISION, "")
            owner = bench.patch(self.kind, owner, {"metadata": {"annotations": {REVISION: revision}}})
        totals = {
            field: sum((rs.get("status") or {}).get(field, 0) for rs in sets)
            for field in ("replicas", "readyReplicas", "availableReplicas")
        }
        updated = (current.get("status") or {}).get("replicas", 0) if current else 0
        updated_ready = (current.get("status") or {}).get("availableReplicas", 0) if current else 0
        now = bench.stamp()
        rolling = (owner["spec"].get("strategy") or {}).get("rollingUpdate") or {}
        missing = share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
        if totals["availableReplicas"] >= wanted - missing:
            available = condition(
                "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now
            )
        else:
            available = condition(
                "Available",
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
                now,
            )
        done = updated_ready == wanted and totals["replicas"] == wanted
        progressing = condition(
            "Progressing",
            "True",
            "NewReplicaSetAvailable" if done else "ReplicaSetUpdated",
            f'ReplicaSet "{name}" ' + ("has successfully progressed." if done else "is progressing."),
            now,
        )
        bench.set_status(
            self.kind,
            owner,
            **totals,
            updatedReplicas=updated,
            unavailableReplicas=max(wanted - totals["availableReplicas"], 0) or None,
            observedGeneration=owner["metadata"]["generation"],
            conditions=set_conditions((owner.get("status") or {}).get("conditions"), available, progressing),
        )


def _current(owner: Object, name: str, sets: list[Object]) -> Object | None:
    """The set of the present template: by the name it gets here, else (another controller made it) the oldest with this template."""
    named = next((rs for rs in sets if rs["metadata"]["name"] == name), None)
    if named is not None:
        return named
    # The hash is what the set's template has more than the Deployment's (Kubernetes' EqualIgnoreHash).
    template = _without_hash(owner["spec"]["template"])
    return next((rs for rs in sets if _without_hash(rs["spec"]["template"]) == template), None)


def _without_hash(template: Object) -> Object:
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH}
    kept = {key: value for key, value in meta.items() if value is not None and key != "labels"}
    return {**template, "metadata": {**kept, "labels": labels}}


def _revision(replica_set: Object) -> int:
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "0")
    return counted(text)
