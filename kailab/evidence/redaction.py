"""Cuts objects to what scheduling decisions need. Environments, arguments, data and credentials stay out of evidence.

The lists at the top say which fields, labels and annotations are kept; a field on no list is left out, so unknown fields leak nothing. ``Redaction`` cuts
objects to the lists and remembers what it cut, so that free text which quotes it can be cut too (``sanitizing``). Objects are read, never changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from kailab.cluster.pod_lifecycle import pre_stop_seconds
from kailab.cluster.protocol import Object
from kailab.model import labels, queues
from kailab.model.kinds import KINDS, kinds_generation

NAME_ONLY = frozenset({"Secret", "ConfigMap", "ServiceAccount"})
"""Kinds of which only the name is kept, because pods refer to them."""

WHOLE_GROUPS = ("resource.k8s.io", "topology.node.k8s.io")
"""API groups whose objects are kept whole except for driver parameters: their texts are selectors and attributes of devices, and policies of nodes."""

TEXT = frozenset(
    {
        # identity
        "apiVersion", "kind", "name", "namespace", "generateName", "apiGroup", "group", "plural", "singular", "scope",
        "containerName", "groupName", "uid", "phase", "type", "reason", "status", "state", "mode",
        # queues, PodGroups, topologies
        "queue", "nodePool", "priorityClass", "priorityClassName", "preemptibility", "preemptionPolicy",
        "preemptionDelay", "stalenessGracePeriod", "parent", "topology", "nodeLabel",
        "requiredTopologyLevel", "preferredTopologyLevel", "requiredTopologyConstraint", "preferredTopologyConstraint",
        *(key for key, form in (queues.SPEC_FIELDS | queues.SHARE_FIELDS).items() if form.in_evidence), "transitionID", "podName", "selectedNode", "receivedResourceType", "selectedGPUGroups",
        # pods
        "schedulerName", "nodeName", "nominatedNodeName", "restartPolicy", "runtimeClassName", "topologyKey", "protocol",
        "hostIP", "podIP", "ip", "request", "resourceClaimName", "resourceClaimTemplateName", "operator",
        # workloads
        "completionMode", "podReplacementPolicy", "podManagementPolicy", "concurrencyPolicy", "schedule", "timeZone",
        "managedBy", "serviceName", "subdomain", "startupPolicyOrder", "launcherCreationPolicy", "cleanPodPolicy", "batchScheduler",
        "submissionMode", "sparkVersion", "coreRequest", "coreLimit", "cores", "memory", "memoryOverhead", "minMember",
        "targetReplicatedJobs", "dependsOn", "action", "startupPolicy", "jobStatus", "jobDeploymentStatus", "rayClusterName",
        "replicas", "minAvailable", "maxUnavailable", "maxSurge", "partition", "cliqueStartupType", "startsAfter", "cliqueNames",
        "quantity", "amount", "duration", "timeout", "podSetName", "subGroupPolicyType", "updateRevision", "currentRevision",
        # nodes, storage
        "architecture", "operatingSystem", "kubeletVersion", "storageClassName", "volumeBindingMode", "provisioner", "handler", "accessModes",
        "volumeMode", "volumeName", "claimName",
    }
)  # fmt: skip
"""Fields whose text is kept, at any place in an object."""

WHOLE = frozenset(
    {
        "tolerations", "taints", "affinity", "nodeAffinity", "topologySpreadConstraints", "labelSelector", "namespaceSelector",
        "selector", "nodeSelector", "nodeSelectorTerms", "matchLabels", "matchExpressions", "schedulingGates", "resourceClaims",
        "requests", "limits", "overhead", "allocatable", "capacity", "requested", "allocated", "allocatedNonPreemptible",
        "ownerReferences", "finalizers", "topologyConstraint", "resourceClaimStatuses", "allowedTopologies", "hard",
    }
)  # fmt: skip
"""Fields that are kept with all their content: selectors, amounts by resource and other data that scheduling compares."""

# Checked before the other lists. Only containers have rules of their own that keep a part of some of these.
NOT_AT_ALL = frozenset(
    {
        "env", "envFrom", "envVars", "envSecretKeyRefs", "args", "command", "arguments", "parameters", "data", "stringData", "binaryData",
        "httpHeaders", "secretRef", "secretKeyRef", "imagePullSecrets", "volumeAttributes", "managedFields", "rayStartParams",
        "sparkConf", "sparkConfigMap", "hadoopConf", "hadoopConfigMap", "runtimeEnvYAML", "entrypoint", "mainApplicationFile",
        "securityContext", "volumeMounts", "volumeDevices", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
        "opaque", "secrets", "credentials", "ephemeralContainers", "dnsConfig", "hostAliases", "secretName",
    }
)  # fmt: skip
"""Fields that are never kept, at any place in an object."""

MESSAGES = frozenset({"message"})
"""Free text of components about their decisions. It is kept for ``DECIDED_KINDS``, without what was left out elsewhere."""
WORKFLOWS = frozenset({"Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow"})
OF_WORKFLOWS = frozenset({"entrypoint", "onExit", "template", "dependencies", "depends"})
"""Fields whose text is kept for ``WORKFLOWS``: there they name the templates and tasks that say which pods come when. A RayJob's entrypoint
is a command line."""
DECIDED_KINDS = frozenset({"Pod", "PodGroup", "BindRequest"})
"""Kinds whose messages are kept. Messages of other kinds (conditions of nodes, claims, workloads) can come from any program."""

ENUMERATED = frozenset({"type", "reason", "status", "phase", "state", "mode", "jobStatus", "jobDeploymentStatus"})
"""Fields of ``TEXT`` that hold one word of an enumeration, as the API server requires for a condition's reason."""
_ENUMERATED_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9_,:./-]{0,99}")


def is_enumerated(text: str) -> bool:
    """True if a text can be a word of an enumeration."""
    return not text or _ENUMERATED_TEXT.fullmatch(text) is not None


# With subdomains. Kinds name the domains of their operators (``Kind.label_domains``). Labels of other domains are kept only if a selector
# in the lab names them.
_LABEL_DOMAINS = (
    "kai.scheduler", "kai.nvidia.com", "kailab.dev", "run.ai", "runai", "nvidia.com", "amd.com", "k8s.io", "kubernetes.io",
)  # fmt: skip
_LABELS = frozenset(
    {
        "app", "job-name", "controller-uid", "pod-template-hash", "controller-revision-hash", "pod-template-generation",
        "spark-role", "spark-app-name", "spark-app-selector", "notebook-name", "project", "user", labels.PRIORITY_CLASS, labels.GPU_GROUP,
    }
)  # fmt: skip
# Fewer than for labels: selectors do not read annotations, and tools store whole configurations in them.
_ANNOTATION_DOMAINS = ("kai.scheduler", "runai", "run.ai")
_SECONDS = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?[a-z]{0,2}([\d.]+[a-z]{1,2}){0,3}")
_COUNTS = re.compile(r"[\dTZ.:=,@+-]{0,4096}")
_NAME_TEXT = re.compile(r"[A-Za-z0-9._:/=,@+-]{0,253}")
# kailab's own annotations, with the form of their text. Nothing reads others of its domain.
_OWN_ANNOTATIONS: Mapping[str, re.Pattern[str]] = {
    labels.RUN_SECONDS: _SECONDS,
    labels.READY_SECONDS: _SECONDS,
    labels.EXPECTED_SECONDS: _SECONDS,
    labels.RAN_SECONDS: _SECONDS,
    labels.CHECKPOINT_SECONDS: _SECONDS,
    "kailab.dev/termination-seconds": _SECONDS,
    labels.FAIL: re.compile(r"[\d.]+(:[A-Za-z]{0,60}|:\d{1,3})?"),
    labels.CHECKPOINT_REQUESTED: _COUNTS,
    labels.CHECKPOINT_DONE: re.compile(r"true|false|[\dTZ.:+-]{0,64}"),
    "kailab.dev/restarts": _COUNTS,
    "kailab.dev/executors": _COUNTS,
    "kailab.dev/job-failures": _COUNTS,
    "kailab.dev/index-failures": _COUNTS,
    "kailab.dev/revision-of": _NAME_TEXT,
    "kailab.dev/template": _NAME_TEXT,
    "kailab.dev/for": _NAME_TEXT,
    "kailab.dev/written-for": _NAME_TEXT,
    "kailab.dev/lab": _NAME_TEXT,
}
_ANNOTATIONS = frozenset(
    {
        labels.POD_GROUP, *labels.GPU_SHARING, labels.GPU_GROUP,
        labels.RECEIVED_RESOURCE_TYPE, labels.FAKE_NODE_TAINT, "user", labels.KNATIVE_MIN_SCALE, "grove.io/topology-name",
        labels.KSERVE_DEPLOYMENT_MODE, labels.KSERVE_STOP,
        "leaderworkerset.sigs.k8s.io/size", "scheduling.k8s.io/group-name", "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-index-failure-count",
        "batch.kubernetes.io/cronjob-scheduled-timestamp", "deployment.kubernetes.io/revision",
        "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index",
    }
)  # fmt: skip


def is_common_word(key: str, text: str) -> bool:
    """True if the text of a field is a word or a time that other objects have as well: ``Running``, ``True``, a time in seconds. No secret has such a form."""
    return (key in ENUMERATED and text.isascii() and text.isalpha()) or _TIME.fullmatch(text) is not None


def keeps_label(key: str) -> bool:
    """True if a label is kept even if no selector names it: labels of KAI, Kubernetes, devices and operators, and ``app``."""
    return key in _LABELS or _is_of(key, _LABEL_DOMAINS) or _is_of(key, _domains_of_kinds(kinds_generation()))


@lru_cache(maxsize=1)
def _domains_of_kinds(generation: int) -> tuple[str, ...]:
    """The label domains of all kinds. ``generation``: of the kinds, so that domains of later kinds count too."""
    return tuple(domain for kind in KINDS.values() for domain in kind.label_domains)


def keeps_annotation(key: str, text: object = "") -> bool:
    """True if grouping, scheduling, controllers or the fake kubelet read an annotation, and its text has the form that they read."""
    own = _OWN_ANNOTATIONS.get(key)
    if own is not None:
        return not text or (isinstance(text, str) and own.fullmatch(text) is not None)
    return key in _ANNOTATIONS or _is_of(key, _ANNOTATION_DOMAINS)


def _is_of(key: str, domains: tuple[str, ...]) -> bool:
    domain, slash, _ = key.partition("/")
    return bool(slash) and any(domain == known or domain.endswith(f".{known}") for known in domains)


LEFT_OUT = "(left out)"
"""Replaces the content of a field that must exist."""

_ABSENT: Any = object()  # None is a value of its own in manifests
_LONGEST_TEXT = 253  # of a DNS name, the longest that Kubernetes takes for an object
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# A key that can't be a field name is data, for example a key of a ConfigMap.
_FIELD = re.compile(r"[a-zA-Z][A-Za-z0-9_]{0,62}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,510}")
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_POD_FIELDS = frozenset(
    {
        "schedulerName", "priorityClassName", "priority", "preemptionPolicy", "nodeSelector", "affinity", "tolerations", "nodeName",
        "topologySpreadConstraints", "restartPolicy", "terminationGracePeriodSeconds", "activeDeadlineSeconds", "schedulingGates",
        "resourceClaims", "overhead", "runtimeClassName", "hostNetwork", "os", "setHostnameAsFQDN", "enableServiceLinks",
        "serviceName", "subdomain", "minReplicas", "maxReplicas",
    }
)  # fmt: skip
"""Fields that are kept of a pod spec, and of a component of KServe, which has its counts beside the pod's fields."""
_CONTAINER_FIELDS = frozenset({"name", "restartPolicy"})
_PORT_FIELDS = ("name", "containerPort", "hostPort", "hostIP", "protocol")
_METADATA = frozenset(
    {
        "name", "namespace", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "ownerReferences", "finalizers",
    }
)  # fmt: skip


class Redaction:
    """Cuts the objects of one lab. ``selected``: label keys that selectors of the lab name. ``left_out``: texts that were cut. ``fields``: the known fields that
    contained them. ``applied``: the objects were applied by a user, so their messages are not those of components."""

    def __init__(self) -> None:
        self.selected: set[str] = set()
        self.left_out: set[str] = set()
        self.fields: set[str] = set()
        self.applied = False
        self._decided = self._workflow = False

    def learn(self, objects: Iterable[Any]) -> None:
        """Collect the label keys that the selectors of objects name."""
        for obj in objects:
            _selected(obj, self.selected)

    def object(self, obj: Object) -> Object:
        """A copy of an object, or of a patch with its kind, cut to what decisions need."""
        self._decided = not self.applied and obj.get("kind") in DECIDED_KINDS
        self._workflow = obj.get("kind") in WORKFLOWS
        try:
            return self._object(obj)
        except (AttributeError, KeyError, TypeError, ValueError):  # the object does not have the structure of its kind
            return self._name_only(obj)

    def _object(self, obj: Object) -> Object:
        group = str(obj.get("apiVersion", "")).rpartition("/")[0]
        if group in WHOLE_GROUPS:
            return {
                key: self._metadata(value) if key == "metadata" else self._whole(value) for key, value in obj.items()
            }
        # By kind in any API group: a Secret in a refused manifest is still a secret.
        if obj.get("kind") in NAME_ONLY:
            return self._name_only(obj)
        kept = self._mapping(obj)
        # A spec stays, even if nothing of it is kept: the objects of a cluster have one.
        empty = "spec" not in kept and isinstance(obj.get("spec"), dict)
        return {**kept, "spec": {}} if empty else kept

    def _name_only(self, obj: Object) -> Object:
        head: Object = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
        for key, value in obj.items():
            if key not in head and key != "metadata":
                self._drop(value, key)
        # All metadata is read, so that its texts are remembered as cut; only names are kept.
        metadata = self._metadata(obj.get("metadata") or {})
        names = (
            {key: metadata[key] for key in ("name", "namespace", "generateName") if key in metadata} if metadata else {}
        )
        return {**head, "metadata": names}

    def keeps_label(self, key: str) -> bool:
        """True if a label is kept by its key, because a selector of the lab names it, or because pages group nodes by it."""
        return key in self.selected or keeps_label(key) or key.endswith(labels.RACK_SUFFIX)

    # --- any structure ------------------------------------------------------------------------------------------------

    def _mapping(self, value: Mapping[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, inside in value.items():
            cut = self._field(key, inside)
            if cut is not _ABSENT:
                kept[key] = cut
        return kept

    def _field(self, key: str, value: Any) -> Any:
        """The kept content of a field, or _ABSENT."""
        if key in OF_WORKFLOWS and self._workflow and isinstance(value, (str, list)):
            return self._inside(key, value)
        if key in NOT_AT_ALL or not _FIELD.fullmatch(key):
            return self._drop(value, key)
        # After NOT_AT_ALL and before WHOLE, because these fields are kept in part.
        special = _RULES.get(key)
        if special is not None:
            return special(self, value)
        if key in WHOLE:
            return value
        return self._inside(key, value)

    def _inside(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            # A pod spec is recognised by its structure, also in kinds that are not registered.
            if isinstance(value.get("containers"), list):
                return self._pod(value)
            cut = self._mapping(value)
            # A mapping that was empty stays, because an empty selector has a meaning. One that became empty is dropped.
            return _ABSENT if value and not cut else cut
        if isinstance(value, list):
            items = [cut_item for item in value if (cut_item := self._inside(key, item)) is not _ABSENT]
            return _ABSENT if value and not items else items
        if isinstance(value, str):
            if self._keeps(key, value):
                return value
            # A dropped message is not remembered as cut, because a component may have written it, and it can be kept elsewhere.
            return _ABSENT if key in MESSAGES else self._drop(value, key)
        return value

    def _keeps(self, key: str, text: str) -> bool:
        if key in ENUMERATED:
            return is_enumerated(text)
        if key in TEXT or (key in OF_WORKFLOWS and self._workflow):
            return len(text) <= _LONGEST_TEXT and text.isprintable()
        return (key in MESSAGES and self._decided) or not text or _TIME.fullmatch(text) is not None

    def _whole(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: inside
                for key, item in value.items()
                if key not in MESSAGES
                and (inside := self._drop(item, key) if key in NOT_AT_ALL else self._whole(item)) is not _ABSENT
            }
        return [self._whole(item) for item in value] if isinstance(value, list) else value

    def _drop(self, value: Any, field: str = "") -> Any:
        """Remember a value as cut, and return _ABSENT."""
        if field:
            # Only known field names go into the header of a manifest; an unknown name may itself be private.
            self.fields.add(field if field in NOT_AT_ALL or field in _NAMED else "other text")
        self._remember(value)
        return _ABSENT

    def _remember(self, value: Any) -> None:
        if isinstance(value, str):
            # Only strings: numbers and booleans occur everywhere.
            self.left_out.add(value)
        elif isinstance(value, dict):
            for inside in value.values():
                self._remember(inside)
        elif isinstance(value, list):
            for inside in value:
                self._remember(inside)

    # --- named structures ---------------------------------------------------------------------------------------------

    def _metadata(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return self._drop(value, "metadata")
        kept: dict[str, Any] = {}
        for key, inside in value.items():
            if key in _METADATA:
                kept[key] = inside
            elif key in ("labels", "annotations"):
                kept[key] = self._labels(inside) if key == "labels" else self.annotations(inside)
            else:
                self._drop(inside, key)
        return kept

    def _labels(self, value: Any) -> Any:
        return self._notes(value, "labels", lambda key, _: self.keeps_label(key))

    def annotations(self, value: Any) -> Any:
        return self._notes(value, "annotations", keeps_annotation)

    def _notes(self, value: Any, field: str, keeps: Any) -> Any:
        if not isinstance(value, dict):
            return self._drop(value, field)
        kept: dict[str, Any] = {}
        for key, text in value.items():
            if keeps(key, text):
                kept[key] = text
            elif key == labels.LAST_APPLIED:
                self._applied(text)
            else:
                self._drop(text, field)
        return kept

    def _applied(self, text: Any) -> None:
        """Cut the earlier state of an object in kubectl's annotation."""
        self.fields.add("annotations")
        try:
            earlier = msgspec.json.decode(text)
        except (msgspec.DecodeError, TypeError):
            earlier = text
        if isinstance(earlier, dict):
            # Only to remember its cut texts, which may differ from those of the object.
            self.object(earlier)
        else:
            self._remember(earlier)

    def _pod(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """A pod spec at any place of an object."""
        kept: dict[str, Any] = {}
        for key, value in spec.items():
            if key in ("containers", "initContainers") and isinstance(value, list):
                kept[key] = [self._container(container) if isinstance(container, dict) else {} for container in value]
            elif key == "volumes":
                kept[key] = self._volumes(value)
            elif key == "resources":
                kept[key] = self._mapping(value or {})
            elif key in _POD_FIELDS:
                kept[key] = value
            else:
                self._drop(value, key)
        return kept

    def _container(self, container: Mapping[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, value in container.items():
            if key in _CONTAINER_FIELDS:
                kept[key] = value
            elif key == "image":
                kept[key] = self._image(value)
            elif key == "resources":
                kept[key] = self._mapping(value or {})
            elif key == "ports":
                kept[key] = [{name: port[name] for name in _PORT_FIELDS if name in port} for port in _items(value)]
            elif key == "volumeMounts":
                # The mounted volumes show which ConfigMaps a pod needs; the mount paths are not needed.
                kept[key] = [
                    {"name": mount.get("name", ""), "mountPath": f"/{n}"} for n, mount in enumerate(_items(value))
                ]
                self._drop([mount.get("mountPath") for mount in value or ()], key)
            elif key == "lifecycle":
                if hook := self._pre_stop(value):
                    kept[key] = {"preStop": hook}
            else:
                self._drop(value, key)
        if maps := _config_maps(container):
            kept["envFrom"] = maps
        return kept

    def _pre_stop(self, lifecycle: Any) -> dict[str, Any]:
        """The existence and duration of a preStop hook, without its command."""
        # The whole lifecycle counts as cut, also the seconds that are kept below.
        self._drop(lifecycle, "lifecycle")
        hook = (lifecycle or {}).get("preStop") or {}
        # The duration is needed: it decides when the pod's resources are free.
        seconds = pre_stop_seconds(hook)
        if seconds is not None:
            return (
                {"sleep": {"seconds": int(seconds)}}
                if seconds == int(seconds)
                else {"exec": {"command": ["sleep", f"{seconds:g}"]}}
            )
        return {"exec": {"command": [LEFT_OUT]}} if hook else {}

    def _image(self, value: Any) -> Any:
        """An image name without scheme, user, password and query."""
        if not isinstance(value, str):
            return self._drop(value, "image")
        plain = _SCHEME.sub("", value)
        host, slash, path = plain.partition("/")
        if slash and "@" in host:
            host = host.rpartition("@")[2]
        plain = re.split(r"[?#]", f"{host}{slash}{path}")[0]
        if plain == value:
            if _IMAGE.fullmatch(value) or not value:
                return value
            plain = LEFT_OUT
        # Scheme, user and password are remembered separately, so that each is cut from other texts.
        credentials = value.partition(host)[0] if host else value
        self._drop([value, *re.split(r"[:/@]", credentials), *re.split(r"[?&=#]", value)[1:]], "image")
        return plain if _IMAGE.fullmatch(plain) else LEFT_OUT

    def _images(self, value: Any) -> Any:
        """A field ``image`` outside of pods, where operators may have a mapping."""
        return self._image(value) if isinstance(value, str) else self._inside("image", value)

    def _volumes(self, value: Any) -> Any:
        if not isinstance(value, list):
            return self._drop(value, "volumes")
        return [self._volume(volume) for volume in value if isinstance(volume, dict)]

    def _volume(self, volume: Mapping[str, Any]) -> dict[str, Any]:
        """Keep claims and names of ConfigMaps, which must exist before a pod can run. Other volumes become an emptyDir."""
        name = {"name": volume.get("name", "")}
        claim, ephemeral = volume.get("persistentVolumeClaim"), volume.get("ephemeral")
        if claim:
            return {**name, "persistentVolumeClaim": {"claimName": claim.get("claimName", "")}}
        if ephemeral:
            return {**name, "ephemeral": self._mapping(ephemeral)}
        # Also for ConfigMaps, whose names are added again below, without keys and paths.
        self._drop({key: inside for key, inside in volume.items() if key != "name"}, "volumes")
        maps = [volume["configMap"]] if volume.get("configMap") else []
        maps += [s["configMap"] for s in (volume.get("projected") or {}).get("sources") or () if s.get("configMap")]
        references = [{"name": config_map.get("name", ""), **_optional(config_map)} for config_map in maps]
        if volume.get("configMap"):
            return {**name, "configMap": references[0]}
        if references:
            return {**name, "projected": {"sources": [{"configMap": config_map} for config_map in references]}}
        return {**name, "emptyDir": {}}


_NAMED = frozenset({"annotations", "labels", "image", "volumes", "metadata"})
_RULES: dict[str, Any] = {
    "metadata": Redaction._metadata,
    "labels": Redaction._labels,
    "annotations": Redaction.annotations,
    "image": Redaction._images,
    "imageID": Redaction._images,
    "volumes": Redaction._volumes,
}
"""Fields with a rule of their own, at any place in an object."""


def _items(value: Any) -> list[dict[str, Any]]:
    """The items of a list of mappings. Raises TypeError for another value."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise TypeError("expected a list of mappings")
    return value


def _config_maps(container: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The ConfigMaps that a container's environment needs; a scheduler checks that they exist."""
    # Without Secrets: KAI's predicate only checks ConfigMaps.
    references = [source["configMapRef"] for source in container.get("envFrom") or () if source.get("configMapRef")]
    for entry in container.get("env") or ():
        if reference := (entry.get("valueFrom") or {}).get("configMapKeyRef"):
            references.append(reference)
    return [{"configMapRef": {"name": source.get("name", ""), **_optional(source)}} for source in references]


def _optional(reference: Mapping[str, Any]) -> dict[str, bool]:
    return {"optional": bool(reference["optional"])} if "optional" in reference else {}


def _selected(value: Any, keys: set[str]) -> None:
    """Collect label keys that selectors name, at any place in a structure."""
    if isinstance(value, list):
        for item in value:
            _selected(item, keys)
        return
    if not isinstance(value, dict):
        return
    for key, inside in value.items():
        if (key in ("matchLabels", "nodeSelector") and isinstance(inside, dict)) or (
            key == "selector" and isinstance(inside, dict) and all(isinstance(text, str) for text in inside.values())
        ):
            keys.update(inside)
        elif key == "matchExpressions" and isinstance(inside, list):
            keys.update(item["key"] for item in inside if isinstance(item, dict) and isinstance(item.get("key"), str))
        elif key in ("topologyKey", "nodeLabel") and isinstance(inside, str):
            keys.add(inside)
        elif key in ("matchLabelKeys", "mismatchLabelKeys") and isinstance(inside, list):
            keys.update(item for item in inside if isinstance(item, str))
        elif isinstance(inside, dict | list):
            _selected(inside, keys)
