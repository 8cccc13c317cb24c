"""Admission of objects, as an API server does it: defaults, validation, namespaces, generated names, and the admission
plugins Priority, RuntimeClass, LimitRanger and ResourceQuota.

A RuntimeClass adds its overhead and its node selector to the pods that name it. A pod whose class does not exist is
refused.

Users submit thousands of equal jobs, and the PodGroups of their pods differ only in name. The result of the first is
reused for all objects that are equal apart from their metadata and that of their pod templates.
"""

from __future__ import annotations

from typing import Any

from kailab.cluster.embedded.limits import LimitRanges
from kailab.cluster.embedded.merge import same
from kailab.cluster.embedded.quotas import ResourceQuotas
from kailab.cluster.embedded.storage.store import ObjectStore
from kailab.cluster.protocol import Object
from kailab.cluster.volumes import asked_size
from kailab.errors import Forbidden, Invalid, NotFound
from kailab.model.defaults import apply_defaults, strip_nulls
from kailab.model.kind import field_of
from kailab.model.kinds import KINDS, immutable_change, is_namespaced, kind_key
from kailab.model.objects import (
    annotations_of,
    content_key,
    labels_of,
    name_of,
    namespace_of,
    owner_references,
    spec_of,
    status_of,
)
from kailab.model.pod_resources import parsed
from kailab.model.quantities import parse
from kailab.model.validation import validate
from kailab.model.validation.devices import admin_access
from kailab.model.validation.fields import Faults, check_metadata, check_notes, shown
from kailab.model.validation.once import is_known_valid
from kailab.model.validation.pods import check_annotations


def with_runtime_class(store: ObjectStore, spec: Object, name: str) -> Object:
    """The pod spec with the additions of its RuntimeClass; the same object if there are none. Raises Forbidden."""
    wanted = spec.get("runtimeClassName")
    overhead = spec.get("overhead")
    if not wanted:
        if overhead:
            raise Forbidden(f"Pod {name!r}: spec.overhead: only a RuntimeClass sets it, and the pod names none")
        return spec
    classes = store.table("RuntimeClass").objects
    runtime_class = classes.get(("", wanted))
    if runtime_class is None:
        known = ", ".join(sorted(key[1] for key in classes)) or "none"
        raise Forbidden(f"Pod {name!r}: no RuntimeClass with name {shown(wanted)} was found (there are: {known})")
    added: Object = {}
    given = (runtime_class.get("overhead") or {}).get("podFixed") or {}
    if overhead and parsed(overhead) != parsed(given):
        raise Forbidden(f"Pod {name!r}: spec.overhead: is not the overhead of RuntimeClass {wanted!r}; leave it out")
    if given:
        added["overhead"] = given
    scheduling = runtime_class.get("scheduling") or {}
    if nodes := scheduling.get("nodeSelector"):
        own = spec.get("nodeSelector") or {}
        for key, value in nodes.items():
            if own.get(key, value) != value:
                raise Forbidden(
                    f"Pod {name!r}: spec.nodeSelector[{key}]: is {own[key]!r}, and RuntimeClass {wanted!r} asks for {value!r}"
                )
        added["nodeSelector"] = {**own, **nodes}
    if tolerations := scheduling.get("tolerations"):
        own = spec.get("tolerations") or []
        added["tolerations"] = [*own, *(toleration for toleration in tolerations if toleration not in own)]
    return {**spec, **added} if added else spec


_MOST = 1024
# The metadata fields that admission checks. An object with others is not answered from the cache.
_METADATA = frozenset(("name", "generateName", "namespace", "labels", "annotations", "ownerReferences"))
_OWNER = frozenset(("apiVersion", "kind", "name", "uid", "controller"))


_TEMPLATE_METADATA = frozenset(("labels", "annotations"))


def _pod_template_metadata(kind: str, obj: Object) -> Object | None:
    """The metadata of the pod template of an object, if it is checked as that of every pod template; None if there is none, or more in it than
    labels and annotations."""
    spec = obj.get("spec")
    template = spec.get("template") if type(spec) is dict and KINDS[kind].checked_templates else None
    if type(template) is not dict or type(template.get("spec")) is not dict:
        return None
    metadata = template.get("metadata")
    return metadata if type(metadata) is dict and metadata.keys() <= _TEMPLATE_METADATA else None


def _with_template_metadata(obj: Object, metadata: Object | None) -> Object:
    spec = obj["spec"]
    return {**obj, "spec": {**spec, "template": {**spec["template"], "metadata": metadata}}}


def _content_of(kind: str, obj: Object) -> bytes | None:
    """The submitted content of an object without its metadata and that of its pod template, where jobs that are equal otherwise have their
    run times. None if the result of admission depends on more than this content."""
    known = KINDS.get(kind)
    if known is None or not known.spec_alone or not obj["metadata"].keys() <= _METADATA:
        return None
    owners = owner_references(obj)
    if type(owners) not in (list, tuple) or any(
        type(owner) is not dict or not owner.keys() <= _OWNER for owner in owners
    ):
        return None
    has_metadata = _pod_template_metadata(kind, obj) is not None
    if has_metadata:
        obj = _with_template_metadata(obj, None)
    return content_key(kind, has_metadata, [(field, value) for field, value in obj.items() if field != "metadata"])


_ADMIN_ACCESS = "resource.kubernetes.io/admin-access"


def invalid(kind: str, name: str, field: str, message: str) -> Invalid:
    return Invalid(f"{kind} {name!r} is invalid: {field}: {message}", field)


class Admission:
    """Admits objects to a store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._limits = LimitRanges(store)
        self.quotas = ResourceQuotas(store)
        self._admitted: dict[bytes, Object] = {}  # without metadata, by ``_content_of`` the submitted object

    def identify(self, obj: Any) -> tuple[str, str, str]:
        """(kind key, namespace, name) of a submitted object; the name is "" if it has a generateName. Raises Invalid."""
        if not isinstance(obj, dict):
            raise Invalid(f"expected an object (a mapping), not {type(obj).__name__}")
        for field in ("apiVersion", "kind"):
            if not isinstance(obj.get(field), str) or not obj[field]:
                raise Invalid(f"{field}: expected text such as {'v1' if field == 'apiVersion' else 'Pod'}", field)
        kind = kind_key(obj)
        meta = obj.get("metadata")
        if not isinstance(meta, dict):
            raise Invalid(f"{kind}: metadata: expected a mapping with a name", "metadata")
        name = meta.get("name") or ""
        if not isinstance(name, str) or not (name or isinstance(meta.get("generateName"), str)):
            raise Invalid(f"{kind}: metadata.name: expected text, got {meta.get('name')!r:.80}", "metadata.name")
        namespace = meta.get("namespace") or ""
        if not isinstance(namespace, str):
            raise Invalid(f"{kind} {name!r}: metadata.namespace: expected text", "metadata.namespace")
        if not is_namespaced(kind, obj):
            namespace = ""
        elif not namespace:
            namespace = "default"
        return kind, namespace, name

    def namespace(self, kind: str, namespace: str, leaving: bool) -> None:
        """Refuse a namespace that does not exist or is terminating."""
        if not namespace:
            return
        if ("", namespace) not in self._store.table("Namespace").objects:
            raise NotFound(f"namespace {namespace!r} not found: create it first (kind: Namespace)")
        if leaving:
            raise Forbidden(f"{kind}: namespace {namespace!r} is being terminated: nothing new may be created in it")

    def new(self, kind: str, obj: Object, name: str) -> Object:
        """Check a new object and add its defaults; the caller fills in the metadata. Raises Invalid."""
        # Kinds that kailab does not know keep the status they are created with.
        if "status" in obj and (known := KINDS.get(kind)) is not None and not known.keeps_status:
            obj = {key: value for key, value in obj.items() if key != "status"}
        content = _content_of(kind, obj)
        if content is not None and (alike := self._from_cache(kind, obj, content)) is not None:
            return alike
        admitted = self._checked(kind, obj, name)
        if kind == "Pod":
            spec = self._completed_pod_spec(admitted["spec"], name, namespace_of(obj))
            if spec is not admitted["spec"]:
                admitted = {**admitted, "spec": spec}
        elif kind == "PersistentVolumeClaim":
            admitted = self._with_default_class(admitted)
            self._refuse_beyond_limits(kind, admitted, name)
        if content is not None:
            if len(self._admitted) >= _MOST:
                self._admitted.clear()
            self._admitted[content] = {field: value for field, value in admitted.items() if field != "metadata"}
        # After validation, because this relies on the shape of the spec.
        if kind in ("ResourceClaim", "ResourceClaimTemplate"):
            self._refuse_admin_access(kind, admitted, name)
        return admitted

    def _from_cache(self, kind: str, obj: Object, content: bytes) -> Object | None:
        """A new object made from the cache; None if its content is not there, or its metadata has a fault."""
        admitted = self._admitted.get(content)
        if admitted is None:
            return None
        metadata = strip_nulls(obj["metadata"])
        faults = Faults()
        check_metadata(faults, {**obj, "metadata": metadata}, kind)
        if (template_metadata := _pod_template_metadata(kind, obj)) is not None:
            template_metadata = strip_nulls(template_metadata)
            check_notes(faults, template_metadata)
            check_annotations(faults, template_metadata, admitted["spec"]["template"]["spec"], "metadata")
            admitted = _with_template_metadata(admitted, template_metadata)
        if faults.found or faults.ratcheted:
            return None
        # Keys keep their submitted order; those that admission adds follow.
        ordered = {field: admitted.get(field) for field in obj if field == "metadata" or field in admitted}
        return {**ordered, **admitted, "metadata": metadata}

    def _refuse_admin_access(self, kind: str, obj: Object, name: str) -> None:
        """Administrative access to devices is reserved to namespaces with a label. Source: Kubernetes 1.34, KEP-5018."""
        path = admin_access(obj)
        if path is None:
            return
        namespace = self._store.table("Namespace").objects[("", namespace_of(obj))]
        if labels_of(namespace).get(_ADMIN_ACCESS) != "true":
            raise Invalid(
                f'{kind} {name!r} is invalid: {path}: admin access to devices needs the label {_ADMIN_ACCESS}: "true" on '
                "its namespace",
                path,
            )

    def _checked(self, kind: str, obj: Object, name: str, stored: Object | None = None) -> Object:
        known_valid = is_known_valid(obj, kind)
        obj = apply_defaults(strip_nulls(obj), kind)
        faults = [] if known_valid else validate(obj, kind, stored)
        if faults:
            # The error names one field for programs, and all of them for people.
            first = faults[0][0]
            listed = "; ".join(f"{field}: {message}" if field else message for field, message in faults)
            raise Invalid(f"{kind} {name!r} is invalid: {listed}", first)
        if kind == "Pod":
            spec = self.with_priority(obj["spec"], name)
            return obj if spec is obj["spec"] else {**obj, "spec": spec}
        if kind == "PriorityClass" and obj.get("globalDefault"):
            self._refuse_second_default(name)
        return obj

    def _refuse_second_default(self, name: str) -> None:
        """At most one class is the default, as in the Priority admission plugin."""
        for (_, other), existing in self._store.table("PriorityClass").objects.items():
            if existing.get("globalDefault") and other != name:
                raise Forbidden(
                    f"PriorityClass {name!r}: globalDefault: {shown(other)} is the global default already; only one "
                    "class can be"
                )

    def complete_pod_spec(self, spec: Object, name: str, namespace: str) -> Object:
        """A validated pod spec with defaults, plus what admission adds for a new pod in a namespace."""
        return self._completed_pod_spec(self.with_priority(spec, name), name, namespace)

    def _completed_pod_spec(self, spec: Object, name: str, namespace: str) -> Object:
        """A validated pod spec with its priority, plus what its RuntimeClass and the LimitRanges of its namespace add. Raises Forbidden."""
        spec = with_runtime_class(self._store, spec, name)
        limited = self._limits.with_defaults(spec, namespace)
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name or "pod", "namespace": namespace},
            "spec": limited,
        }
        # A default may contradict what the pod itself says, such as a request beyond a default limit.
        if limited is not spec and (faults := validate(pod, "Pod")):
            raise Invalid(f"Pod {name!r} is invalid: {'; '.join(f'{at}: {text}' for at, text in faults)}", faults[0][0])
        self._refuse_beyond_limits("Pod", pod, name)
        return limited

    def _with_default_class(self, claim: Object) -> Object:
        """The claim with the default class if it names none, as by the DefaultStorageClass plugin; of several, the newest."""
        if "storageClassName" in claim["spec"]:
            return claim
        defaults = [
            storage_class
            for storage_class in self._store.table("StorageClass").objects.values()
            if annotations_of(storage_class).get("storageclass.kubernetes.io/is-default-class") == "true"
        ]
        if not defaults:
            return claim
        newest = max(defaults, key=lambda each: (each["metadata"].get("creationTimestamp", ""), name_of(each)))
        return {**claim, "spec": {**claim["spec"], "storageClassName": name_of(newest)}}

    def _refuse_beyond_limits(self, kind: str, obj: Object, name: str) -> None:
        if faults := self._limits.faults(kind, obj):
            raise Forbidden(f"{kind} {name!r} is forbidden: {'; '.join(faults)}")

    def with_priority(self, spec: Object, name: str) -> Object:
        """The pod spec with the number of its priority class, as the Priority admission plugin sets it."""
        wanted = spec.get("priorityClassName")
        classes = self._store.table("PriorityClass").objects
        if wanted:
            priority_class = classes.get(("", wanted))
            if priority_class is None:
                known = ", ".join(sorted(key[1] for key in classes)) or "none"
                raise Forbidden(
                    f"Pod {name!r}: no PriorityClass with name {shown(wanted)} was found (there are: {known})"
                )
            priority = priority_class["value"]
        else:
            priority = 0
            for candidate in classes.values():
                if candidate.get("globalDefault"):
                    wanted, priority = name_of(candidate), candidate["value"]
                    break
        # The same object, so that a write which changes nothing is recognized.
        if spec.get("priority") == priority and (not wanted or spec.get("priorityClassName") == wanted):
            return spec
        spec = {**spec, "priority": priority}
        if wanted:
            spec["priorityClassName"] = wanted
        return spec

    def changed(self, kind: str, old: Object, new: Object, name: str) -> Object:
        """Check the new state of a stored object and add defaults. Raises Invalid if an immutable field differs."""
        new = self._checked(kind, new, name, old)
        if kind == "Pod":
            self._check_pod_update(old["spec"], new["spec"], name)
            return new
        if path := immutable_change(kind, old, new):
            raise invalid(kind, name, path, "field is immutable")
        if kind == "PersistentVolumeClaim":
            self._check_claim_update(old, new, name)
        if kind in ("PersistentVolumeClaim", "Service"):
            self.quotas.check(kind, new, name, old)
        return new

    def _check_claim_update(self, old: Object, new: Object, name: str) -> None:
        """A claim may only grow, once it is bound, if its class lets it. Source: Kubernetes ValidatePersistentVolumeClaimUpdate, and the
        plugin PersistentVolumeClaimResize."""
        at, before, after = "spec.resources.requests[storage]", asked_size(old), asked_size(new)
        if parse(before) == parse(after):
            return
        if status_of(old).get("phase") != "Bound":
            raise invalid("PersistentVolumeClaim", name, at, "may only change once the claim is bound")
        if parse(after) < parse(before):
            raise invalid("PersistentVolumeClaim", name, at, f"may only grow, and is {before}")
        storage_class = self._store.find("StorageClass", ("", spec_of(new).get("storageClassName") or "")) or {}
        if not storage_class.get("allowVolumeExpansion"):
            raise Forbidden(f"PersistentVolumeClaim {name!r}: {at}: its StorageClass has no allowVolumeExpansion")
        self._refuse_beyond_limits("PersistentVolumeClaim", new, name)

    @staticmethod
    def _check_pod_update(old: Object, new: Object, name: str) -> None:
        """Source: Kubernetes ValidatePodUpdate."""
        if old is new:
            return
        for field in (*old, *(field for field in new if field not in old)):
            before, after = old.get(field), new.get(field)
            if same(before, after):
                continue
            if field in ("containers", "initContainers") and _differ_only_in_images(before, after):
                continue
            if field == "tolerations":
                if all(any(_same_taint(toleration, other) for other in after or ()) for toleration in before or ()):
                    continue
                message = "tolerations may only be added"
            elif field == "activeDeadlineSeconds":
                if before is None or (after is not None and after < before):
                    continue
                message = "may only become less"
            elif field == "schedulingGates":
                gates = {gate.get("name") for gate in before or ()}
                if all(gate.get("name") in gates for gate in after or ()):
                    continue
                message = "gates may only be removed after creation"
            elif "schedulingGates" in old and field in ("nodeSelector", "affinity"):
                # The node selection of a gated pod may be narrowed.
                if (_narrows_labels if field == "nodeSelector" else _narrows_affinity)(before or {}, after or {}):
                    continue
                message = "the nodes of a pod with scheduling gates may only become fewer"
            else:
                message = (
                    "pod updates may not change fields other than container images, tolerations, activeDeadlineSeconds and "
                    "schedulingGates"
                )
            raise invalid("Pod", name, f"spec.{field}", message)


def _same_taint(toleration: Object, other: Object) -> bool:
    """True if both tolerate the same, however long."""
    return {**toleration, "tolerationSeconds": 0} == {**other, "tolerationSeconds": 0}


def _narrows_labels(before: Object, after: Object) -> bool:
    return all(after.get(key) == value for key, value in before.items())


def _narrows_affinity(before: Object, after: Object) -> bool:
    """True if only node affinity differs, and each of its required terms is met by fewer nodes."""
    if any(not same(before.get(key), after.get(key)) for key in ("podAffinity", "podAntiAffinity")):
        return False
    terms, now = (
        field_of(affinity, "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms") or []
        for affinity in (before, after)
    )
    if not terms:
        return True
    return len(now) == len(terms) and all(
        all(wish in (new.get(key) or ()) for wish in old.get(key) or ())
        for old, new in zip(terms, now, strict=True)
        for key in ("matchExpressions", "matchFields")
    )


def _differ_only_in_images(before: Any, after: Any) -> bool:
    if not isinstance(before, list) or not isinstance(after, list) or len(before) != len(after):
        return False
    return all(
        {key: value for key, value in a.items() if key != "image"} == {k: v for k, v in b.items() if k != "image"}
        for a, b in zip(before, after, strict=True)
    )
