"""Check pods, pod templates and nodes: resources, GPU requests, placement rules, taints.

The rules are those of the API server, and those of KAI's admission webhook for pods that name its scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from kailab.errors import InputError
from kailab.model import labels, quantities
from kailab.model.objects import content_key
from kailab.model.quantities import format_bytes
from kailab.model.validation import core
from kailab.model.validation.field_rules import field_faults, is_port_name
from kailab.model.validation.fields import (
    LABEL_RULE,
    LARGEST_INT32,
    NAME_RULE,
    Faults,
    check_labels,
    check_notes,
    is_dns_label,
    is_dns_subdomain,
    is_extended,
    is_label_key,
    is_label_value,
)

CHECKED_ANNOTATIONS = frozenset((*labels.SECONDS, labels.FAIL, *labels.GPU_SHARING))
"""Annotations that ``check_annotations`` checks."""
RESTART_POLICIES = ("Always", "OnFailure", "Never")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OWN_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_MOST_KNOWN = 1024
_sound: set[bytes] = set()
"""Specs of pod templates without faults: most templates equal an earlier one."""
_POSITIVE = re.compile(r"[0-9]{1,18}", re.ASCII)


def check_pod(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is None:
        return
    check_pod_spec(faults, spec, "spec")
    _check_mounts(faults, spec, "spec")
    meta = obj.get("metadata")
    if isinstance(meta, dict):
        check_annotations(faults, meta, spec, "metadata")


def check_template(
    faults: Faults,
    parent: dict[str, Any],
    path: str,
    restart: tuple[str, ...] = RESTART_POLICIES,
    added: Collection[str] | None = None,
) -> None:
    """Check ``template`` in ``parent``: its labels, its pod spec, and the restart policies that its owner allows. ``added``: names of the
    volumes that the owner adds; None if they are not known."""
    template = faults.mapping(parent, "template", f"{path}.template", required=True)
    if template is None:
        return
    path = f"{path}.template"
    meta = faults.mapping(template, "metadata", f"{path}.metadata") or {}
    check_notes(faults, meta, f"{path}.metadata")
    spec = faults.mapping(template, "spec", f"{path}.spec", required=True)
    if spec is None:
        return
    content = content_key(restart, spec, None if added is None else sorted(added))
    if content not in _sound:
        before = len(faults.found) + len(faults.ratcheted)
        check_pod_spec(faults, spec, f"{path}.spec", restart)
        if added is not None:
            _check_mounts(faults, spec, f"{path}.spec", added)
        if restart == ("Always",) and spec.get("activeDeadlineSeconds") is not None:
            faults.add(f"{path}.spec.activeDeadlineSeconds", "is only for pods that end, by themselves or of a Job")
        if content is not None and len(faults.found) + len(faults.ratcheted) == before:
            if len(_sound) >= _MOST_KNOWN:
                _sound.clear()
            _sound.add(content)
    check_annotations(faults, meta, spec, f"{path}.metadata")


def _check_mounts(faults: Faults, spec: dict[str, Any], path: str, added: Collection[Any] = ()) -> None:
    """Check that containers mount volumes of their pod. ``added``: names of volumes that the pod gets from its owner."""
    # Other shapes are reported elsewhere.
    named = (volume.get("name") for _, volume in Faults().mappings(spec, "volumes", path))
    volumes = {*added, *(name for name in named if isinstance(name, str))}
    for key in ("initContainers", "containers"):
        for at, container in Faults().mappings(spec, key, f"{path}.{key}"):
            for field in ("volumeMounts", "volumeDevices"):
                for place, mount in Faults().mappings(container, field, f"{at}.{field}"):
                    name = mount.get("name")
                    if isinstance(name, str) and name not in volumes:
                        faults.wrong(f"{place}.name", name, f"the name of one of {path}.volumes")


def check_pod_spec(
    faults: Faults, spec: dict[str, Any], path: str, restart: tuple[str, ...] = RESTART_POLICIES
) -> None:
    # One set for both lists, because statuses and KAI's annotations identify containers by name.
    names: set[str] = set()
    for key in ("initContainers", "containers"):
        for at, container in faults.mappings(spec, key, f"{path}.{key}", required=key == "containers"):
            _check_container(faults, container, at, names)
            own = faults.text(container, "restartPolicy", f"{at}.restartPolicy")
            if own is not None and own not in RESTART_POLICIES:
                faults.wrong(f"{at}.restartPolicy", own, " or ".join(RESTART_POLICIES))
    _check_host_ports(faults, spec, path)
    _check_volumes(faults, spec, path)
    if spec.get("dnsPolicy") == "None" and not (faults.mapping(spec, "dnsConfig", f"{path}.dnsConfig") or {}).get(
        "nameservers"
    ):
        faults.add(f"{path}.dnsConfig", "needs nameservers where dnsPolicy is None")
    policy = faults.text(spec, "restartPolicy", f"{path}.restartPolicy")
    if (policy or "Always") not in restart:
        faults.wrong(f"{path}.restartPolicy", policy or "Always", " or ".join(restart))
    # Beyond this, floats can't represent every second.
    faults.integer(spec, "terminationGracePeriodSeconds", f"{path}.terminationGracePeriodSeconds", most=2**53)
    faults.integer(spec, "activeDeadlineSeconds", f"{path}.activeDeadlineSeconds", least=1)
    faults.integer(spec, "priority", f"{path}.priority", least=-(2**31))
    faults.text(spec, "schedulerName", f"{path}.schedulerName")
    for key in ("nodeName", "priorityClassName", "runtimeClassName", "serviceAccountName", "serviceAccount"):
        named = faults.text(spec, key, f"{path}.{key}")
        # An empty name is none, except that of a RuntimeClass. Source: Kubernetes ValidateRuntimeClassName.
        if named is not None and (named or key == "runtimeClassName") and not is_dns_subdomain(named):
            faults.wrong(f"{path}.{key}", named, NAME_RULE)
    check_labels(faults, spec, "nodeSelector", f"{path}.nodeSelector")
    faults.quantities(spec, "overhead", f"{path}.overhead")
    if isinstance(whole := spec.get("resources"), dict):
        check_resources(faults, spec, path)
        # Source: Kubernetes validatePodResourceRequirements.
        for key in ("limits", "requests"):
            amounts = whole.get(key)
            for name in amounts if isinstance(amounts, dict) else ():
                if isinstance(name, str) and name not in ("cpu", "memory") and not name.startswith(_HUGE_PAGES):
                    faults.add(
                        f"{path}.resources.{key}[{name:.80}]",
                        "can't be given for a whole pod; expected cpu, memory or huge pages",
                    )
        if whole.get("claims"):
            faults.add(f"{path}.resources.claims", "can't be given for a whole pod")
    for at, toleration in faults.mappings(spec, "tolerations", f"{path}.tolerations"):
        check_toleration(faults, toleration, at)
    affinity = faults.mapping(spec, "affinity", f"{path}.affinity")
    if affinity:
        _check_affinity(faults, affinity, f"{path}.affinity")
    apart: set[tuple[str, str]] = set()
    for at, spread in faults.mappings(spec, "topologySpreadConstraints", f"{path}.topologySpreadConstraints"):
        _check_spread(faults, spread, at)
        if (both := (str(spread.get("topologyKey")), str(spread.get("whenUnsatisfiable")))) in apart:
            faults.add(at, "has the topologyKey and whenUnsatisfiable of an earlier one")
        apart.add(both)
    gates: set[str] = set()
    for at, gate in faults.mappings(spec, "schedulingGates", f"{path}.schedulingGates"):
        called = faults.text(gate, "name", f"{at}.name", required=True)
        if called and not is_label_key(called):
            faults.add(f"{at}.name", "is not a valid name; expected name or domain/name")
        if called in gates:
            faults.add(f"{at}.name", f"{called!r:.80} is given twice")
        gates.update((called,) if called else ())
    if spec.get("ephemeralContainers"):
        faults.ratchet(f"{path}.ephemeralContainers", "can't be given when a pod is made, nor in a template")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        faults.add(f"{path}.nodeName", "can't be given before all schedulingGates are taken off")
    claims: set[str] = set()
    for at, claim in faults.mappings(spec, "resourceClaims", f"{path}.resourceClaims"):
        name = faults.text(claim, "name", f"{at}.name", required=True)
        if name in claims:
            faults.add(f"{at}.name", f"{name!r:.80} is given twice")
        if name and not is_dns_label(name):
            faults.wrong(f"{at}.name", name, LABEL_RULE)
        for key in ("resourceClaimName", "resourceClaimTemplateName"):
            if isinstance(object_ := claim.get(key), str) and object_ and not is_dns_subdomain(object_):
                faults.wrong(f"{at}.{key}", object_, NAME_RULE)
        claims.update((name,) if name else ())
        sources = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(key)]
        if len(sources) != 1:
            faults.add(at, "expected exactly one of resourceClaimName and resourceClaimTemplateName")
    _check_claims_used(faults, spec, path, claims)
    for field, message in field_faults("V1PodSpec", spec):
        faults.ratchet(f"{path}.{field}", message)


def _check_claims_used(faults: Faults, spec: dict[str, Any], path: str, known: set[str]) -> None:
    """Check that containers use claims of their pod, by the names in the pod."""
    for key in ("initContainers", "containers"):
        # Other shapes have been reported already.
        for place, container in Faults().mappings(spec, key, f"{path}.{key}"):
            resources = container.get("resources")
            if isinstance(resources, dict):
                for at, claim in Faults().mappings(resources, "claims", f"{place}.resources.claims"):
                    name = claim.get("name")
                    if isinstance(name, str) and name not in known:
                        faults.wrong(f"{at}.name", name, f"the name of one of {path}.resourceClaims")


def check_resources(faults: Faults, parent: dict[str, Any], path: str) -> None:
    """Check ``resources`` of a container or pod: requests do not exceed limits, and are equal for extended resources and huge pages. Source: Kubernetes
    ValidateContainerResourceRequirements."""
    resources = faults.mapping(parent, "resources", f"{path}.resources")
    if not resources:
        return
    at = f"{path}.resources"
    limits = faults.quantities(resources, "limits", f"{at}.limits") or {}
    requests = faults.quantities(resources, "requests", f"{at}.requests") or {}
    given = resources.get("limits")
    for name, amount in requests.items():
        field = f"{at}.requests[{name}]"
        exact = is_extended(name) or name.startswith(_HUGE_PAGES)
        if name in limits:
            if exact and amount != limits[name]:
                faults.add(
                    field, f"must equal the limit of {quantities.format_number(limits[name])} for an extended resource"
                )
            elif amount > limits[name]:
                faults.add(field, f"is more than the limit of {quantities.format_number(limits[name])}")
        # Checked on the written keys, because unreadable limits have been reported already.
        elif exact and (given is None or (isinstance(given, dict) and name not in given)):
            faults.add(field, f"needs an equal limit: {name} can't be overcommitted")
    for key, names in (("limits", limits), ("requests", requests)):
        for name in names:
            # Without a domain, a name is one of Kubernetes' own. Source: Kubernetes validateContainerResourceName.
            at_name = f"{at}.{key}[{name:.80}]"
            if not is_label_key(name):
                faults.add(at_name, "is not a resource name; expected name or domain/name")
            elif "/" not in name and name not in OWN_RESOURCES and not name.startswith(_HUGE_PAGES):
                expected = (
                    f"{', '.join(OWN_RESOURCES)}, {_HUGE_PAGES}SIZE or a name with a domain ({labels.GPU_RESOURCE})"
                )
                faults.add(at_name, f"is not a resource of containers; expected {expected}")
            elif name.startswith("requests."):
                faults.add(at_name, "is not a resource name; requests. is for those of quotas")
            elif name.startswith(_HUGE_PAGES):
                _check_huge_pages(faults, name, (limits if key == "limits" else requests)[name], at_name)
    asked = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in asked) and asked.isdisjoint(("cpu", "memory")):
        faults.add(at, "asks for huge pages; expected cpu or memory beside them")


def _check_huge_pages(faults: Faults, name: str, amount: Any, path: str) -> None:
    """Source: Kubernetes validateContainerResourceName."""
    try:
        size = quantities.parse(name.removeprefix(_HUGE_PAGES))
    except InputError:
        faults.add(path, "does not say the size of the pages, such as hugepages-2Mi")
        return
    if size > 0 and amount % size:
        faults.add(path, "is not a multiple of the size of the pages")


def check_annotations(faults: Faults, meta: dict[str, Any], spec: dict[str, Any], meta_path: str) -> None:
    """Check the annotations for GPU sharing and times. KAI's webhook checks only pods that name its scheduler."""
    annotations = meta.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    for key in labels.SECONDS:
        if key in annotations:
            _check_seconds(faults, annotations[key], f"{meta_path}.annotations[{key}]")
    if isinstance(fail := annotations.get(labels.FAIL), str):
        _check_seconds(faults, fail.partition(":")[0], f"{meta_path}.annotations[{labels.FAIL}]")
    if spec.get("schedulerName") != labels.SCHEDULER_NAME:
        return
    sharing = Faults()
    _check_sharing(sharing, annotations, _has_gpu_limit(spec), f"{meta_path}.annotations")
    _check_sharing_container(sharing, annotations, spec, f"{meta_path}.annotations")
    # KAI schedules the pods of a cluster that its webhook did not see, too.
    for fault in sharing.found:
        faults.ratchet(*fault)


def check_selector(faults: Faults, selector: dict[str, Any], path: str) -> None:
    """Check a label selector: matchLabels and matchExpressions."""
    check_labels(faults, selector, "matchLabels", f"{path}.matchLabels")
    _check_expressions(faults, selector, "matchExpressions", path, _LABEL_OPERATORS)


def _check_container(faults: Faults, container: dict[str, Any], path: str, names: set[str]) -> None:
    name = faults.text(container, "name", f"{path}.name", required=True)
    if name:
        if not is_dns_label(name):
            faults.wrong(f"{path}.name", name, LABEL_RULE)
        elif name in names:
            faults.add(f"{path}.name", f"container name {name!r} is used twice")
        names.add(name)
    check_resources(faults, container, path)
    ports: set[str] = set()
    for at, port in faults.mappings(container, "ports", f"{path}.ports"):
        called = port.get("name")
        if isinstance(called, str) and called:
            if called in ports:
                faults.add(f"{at}.name", f"{called!r:.80} is given twice")
            if not is_port_name(called):
                faults.wrong(
                    f"{at}.name", called, "15 lower-case letters, digits and '-' at most, one of them a letter"
                )
            ports.add(called)
        faults.integer(port, "containerPort", f"{at}.containerPort", least=1, most=65535)
        faults.integer(port, "hostPort", f"{at}.hostPort", most=65535)
        faults.one_of(port, "protocol", f"{at}.protocol", ("", "TCP", "UDP", "SCTP"))
    for at, variable in faults.mappings(container, "env", f"{path}.env"):
        source = variable.get("valueFrom")
        if isinstance(source, dict):
            _check_one_of(faults, source, f"{at}.valueFrom", "source")
            if variable.get("value"):
                faults.add(f"{at}.valueFrom", "can't be given together with value")
    for at, source in faults.mappings(container, "envFrom", f"{path}.envFrom"):
        refs = {key: value for key, value in source.items() if key in ("configMapRef", "secretRef")}
        _check_one_of(faults, refs, at, "source", ("configMapRef", "secretRef"))
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(probe := container.get(key), dict):
            _check_probe(faults, probe, f"{path}.{key}", key)
    lifecycle = faults.mapping(container, "lifecycle", f"{path}.lifecycle") or {}
    for key in ("postStart", "preStop"):
        handlers = ("exec", "httpGet", "tcpSocket", "sleep")
        _check_handler(faults, lifecycle.get(key), f"{path}.lifecycle.{key}", handlers)
    paths: set[str] = set()
    for at, mount in faults.mappings(container, "volumeMounts", f"{path}.volumeMounts"):
        mounted = mount.get("mountPath")
        if isinstance(mounted, str):
            if mounted in paths:
                faults.add(f"{at}.mountPath", f"{mounted!r:.80} is given twice")
            paths.add(mounted)


def _check_probe(faults: Faults, probe: dict[str, Any], path: str, key: str) -> None:
    """Source: Kubernetes validateProbe, validateLivenessProbe."""
    _check_handler(faults, probe, path, ("exec", "httpGet", "tcpSocket", "grpc"))
    if key != "readinessProbe" and probe.get("successThreshold") not in (None, 0, 1):
        faults.wrong(f"{path}.successThreshold", probe["successThreshold"], "1")
    if (grace := probe.get("terminationGracePeriodSeconds")) is not None and key == "readinessProbe":
        faults.add(f"{path}.terminationGracePeriodSeconds", "can't be given for a readinessProbe")
    elif isinstance(grace, int) and grace < 1:
        faults.wrong(f"{path}.terminationGracePeriodSeconds", grace, "1 or more")


def _check_handler(faults: Faults, given: Any, path: str, handlers: tuple[str, ...]) -> None:
    if isinstance(given, dict):
        there = {key: value for key, value in given.items() if key in handlers}
        _check_one_of(faults, there, path, "handler", handlers)


def _check_one_of(faults: Faults, given: dict[str, Any], path: str, what: str, choices: tuple[str, ...] = ()) -> None:
    """Check that exactly one field of a union is given."""
    there = [key for key, value in given.items() if value is not None]
    if not there:
        faults.add(path, f"has no {what}; expected {' or '.join(choices) or 'one'}")
    elif len(there) > 1:
        faults.add(path, f"has more than one {what}: {', '.join(there)}; expected one")


def _check_volumes(faults: Faults, spec: dict[str, Any], path: str) -> None:
    # Other shapes are reported elsewhere.
    names: set[str] = set()
    for at, volume in Faults().mappings(spec, "volumes", f"{path}.volumes"):
        sources = core.field_types("V1Volume").keys() - {"name"}
        # A volume without a source gets an emptyDir, by Kubernetes' defaults.
        if given := {key: value for key, value in volume.items() if key in sources and value is not None}:
            _check_one_of(faults, given, at, "source")
        name = volume.get("name")
        if isinstance(name, str):
            if name and not is_dns_label(name):
                faults.wrong(f"{at}.name", name, LABEL_RULE)
            if name in names:
                faults.add(f"{at}.name", f"{name!r:.80} is given twice")
            names.add(name)


def _check_host_ports(faults: Faults, spec: dict[str, Any], path: str) -> None:
    """Check host ports with hostNetwork: every container port is a host port, and no two containers may have the same."""
    taken: dict[tuple[str, str, int], str] = {}
    own = spec.get("hostNetwork") is True
    for at, container in Faults().mappings(spec, "containers", f"{path}.containers"):
        for place, port in Faults().mappings(container, "ports", f"{at}.ports"):
            host, inside = port.get("hostPort"), port.get("containerPort")
            # Other types have been reported already.
            if type(host) is not int or not host:
                continue
            if own and host != inside:
                faults.wrong(f"{place}.hostPort", host, f"{inside}, its containerPort, because hostNetwork is true")
            name = (str(port.get("protocol") or "TCP"), str(port.get("hostIP") or ""), host)
            if name in taken:
                faults.add(f"{place}.hostPort", f"{host} is taken by {taken[name]} already")
            taken.setdefault(name, place)


def _check_sharing(faults: Faults, annotations: dict[str, Any], whole: bool, path: str) -> None:
    fraction, memory = annotations.get(labels.GPU_FRACTION), annotations.get(labels.GPU_MEMORY)
    devices = annotations.get(labels.GPU_FRACTION_DEVICES)
    fraction_at, memory_at = f"{path}[{labels.GPU_FRACTION}]", f"{path}[{labels.GPU_MEMORY}]"
    if fraction is not None:
        if whole:
            faults.add(fraction_at, f"can't be combined with a whole {labels.GPU_RESOURCE} limit; give one of the two")
        faults.read(quantities.fraction_milli, fraction, fraction_at)
    if memory is not None:
        if fraction is not None or whole:
            other = labels.GPU_FRACTION if fraction is not None else f"a whole {labels.GPU_RESOURCE} limit"
            faults.add(memory_at, f"can't be combined with {other}; give one of the two")
        if not _is_positive(memory):
            faults.wrong(memory_at, memory, f"MiB as a whole number of 1 or more, {LARGEST_INT32} at most")
    if devices is not None:
        at = f"{path}[{labels.GPU_FRACTION_DEVICES}]"
        if fraction is None and memory is None:
            faults.add(at, f"needs {labels.GPU_FRACTION} or {labels.GPU_MEMORY} beside it")
        if not _is_positive(devices):
            faults.wrong(at, devices, f"a whole number of 1 or more, {LARGEST_INT32} at most")
    if annotations.get("mps") == "true" and fraction is None and memory is None:
        faults.add(f"{path}[mps]", f"needs {labels.GPU_FRACTION} or {labels.GPU_MEMORY} beside it")


def _check_sharing_container(faults: Faults, annotations: dict[str, Any], spec: dict[str, Any], path: str) -> None:
    # Checked only for pods that request a share, as in KAI (GetFractionContainerRef).
    if not any(name in annotations for name in labels.GPU_SHARES):
        return
    name = annotations.get(labels.GPU_FRACTION_CONTAINER)
    if name is not None and all(container.get("name") != name for container in _containers(spec)):
        at = f"{path}[{labels.GPU_FRACTION_CONTAINER}]"
        faults.add(at, f"no container is called {name!r:.80}; expected the one that gets the share")


def _has_gpu_limit(spec: dict[str, Any]) -> bool:
    for container in _containers(spec):
        resources = container.get("resources")
        limits = resources.get("limits") if isinstance(resources, dict) else None
        if isinstance(limits, dict) and labels.GPU_RESOURCE in limits:
            return True
    return False


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Yield all containers that can be read, init containers too."""
    lists = [spec.get(key) for key in ("containers", "initContainers")]
    return [item for each in lists if isinstance(each, list) for item in each if isinstance(item, dict)]


def check_toleration(faults: Faults, toleration: dict[str, Any], path: str) -> None:
    key = faults.text(toleration, "key", f"{path}.key")
    operator = faults.one_of(toleration, "operator", f"{path}.operator", ("", "Exists", "Equal"))
    value = faults.text(toleration, "value", f"{path}.value")
    effect = faults.one_of(toleration, "effect", f"{path}.effect", _EFFECTS)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        faults.add(f"{path}.effect", "must be NoExecute where tolerationSeconds is given")
    if key and not is_label_key(key):
        faults.add(f"{path}.key", "is not a valid key; expected name or domain/name")
    if not key and operator != "Exists":
        faults.add(f"{path}.operator", "must be Exists where key is empty (it tolerates every taint)")
    if value and operator == "Exists":
        faults.add(f"{path}.value", "must be empty where operator is Exists")
    elif value and not is_label_value(value):
        faults.add(f"{path}.value", "is not a valid value of a taint")


def _check_affinity(faults: Faults, affinity: dict[str, Any], path: str) -> None:
    node = faults.mapping(affinity, "nodeAffinity", f"{path}.nodeAffinity")
    if node:
        _check_node_affinity(faults, node, f"{path}.nodeAffinity")
    for key in ("podAffinity", "podAntiAffinity"):
        rule = faults.mapping(affinity, key, f"{path}.{key}")
        if not rule:
            continue
        for at, term in faults.mappings(rule, _REQUIRED, f"{path}.{key}.{_REQUIRED}"):
            _check_pod_term(faults, term, at)
        _check_preferred(faults, rule, f"{path}.{key}", "podAffinityTerm", _check_pod_term)


def _check_node_affinity(faults: Faults, node: dict[str, Any], path: str) -> None:
    required = faults.mapping(node, _REQUIRED, f"{path}.{_REQUIRED}")
    if required is not None:
        at = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        for place, term in faults.mappings(required, "nodeSelectorTerms", at, required=True):
            _check_node_term(faults, term, place)
    _check_preferred(faults, node, path, "preference", _check_node_preference)


def _check_preferred(
    faults: Faults, rule: dict[str, Any], path: str, key: str, check: Callable[[Faults, dict[str, Any], str], None]
) -> None:
    """Check preferred terms: a weight, and the term itself in ``key``."""
    for at, weighted in faults.mappings(rule, _PREFERRED, f"{path}.{_PREFERRED}"):
        _check_weight(faults, weighted, at)
        term = faults.mapping(weighted, key, f"{at}.{key}", required=True)
        if term is not None:
            check(faults, term, f"{at}.{key}")


def _check_node_term(faults: Faults, term: dict[str, Any], path: str) -> None:
    _check_expressions(faults, term, "matchExpressions", path, _NODE_OPERATORS)
    _check_node_fields(faults, term, path)


def _check_node_preference(faults: Faults, term: dict[str, Any], path: str) -> None:
    """As a required term, whose values alone must be those of labels. Source: Kubernetes ValidatePreferredSchedulingTerms."""
    _check_expressions(faults, term, "matchExpressions", path, _NODE_OPERATORS, any_value=True)
    _check_node_fields(faults, term, path)


def _check_node_fields(faults: Faults, term: dict[str, Any], path: str) -> None:
    # Values of fields have other rules: the name of a node may be longer than a label value.
    _check_expressions(faults, term, "matchFields", path, ("In", "NotIn"), any_value=True)
    for at, field in Faults().mappings(term, "matchFields", f"{path}.matchFields"):
        values = field.get("values")
        if isinstance(key := field.get("key"), str) and key != "metadata.name":
            faults.wrong(f"{at}.key", key, "metadata.name")
        if isinstance(values, list) and len(values) > 1:
            faults.add(f"{at}.values", "expected one name of a node")
        elif isinstance(values, list) and values and isinstance(values[0], str) and not is_dns_subdomain(values[0]):
            faults.wrong(f"{at}.values[0]", values[0], NAME_RULE)


def _check_pod_term(faults: Faults, term: dict[str, Any], path: str) -> None:
    key = faults.text(term, "topologyKey", f"{path}.topologyKey", required=True)
    if key and not is_label_key(key):
        faults.add(f"{path}.topologyKey", "is not a valid label key; expected name or domain/name")
    _check_keys_of_pods(faults, term, path, ("matchLabelKeys", "mismatchLabelKeys"))
    for index, space in enumerate(faults.items(term, "namespaces", f"{path}.namespaces") or ()):
        if isinstance(space, str) and not is_dns_label(space):
            faults.wrong(f"{path}.namespaces[{index}]", space, LABEL_RULE)
    for name in ("labelSelector", "namespaceSelector"):
        selector = faults.mapping(term, name, f"{path}.{name}")
        if selector:
            check_selector(faults, selector, f"{path}.{name}")


def _check_weight(faults: Faults, item: dict[str, Any], path: str) -> None:
    if item.get("weight") is None:
        faults.add(f"{path}.weight", "is required; expected 1 to 100")
    faults.integer(item, "weight", f"{path}.weight", least=1, most=100)


def _check_spread(faults: Faults, spread: dict[str, Any], path: str) -> None:
    faults.integer(spread, "maxSkew", f"{path}.maxSkew", least=1)
    faults.text(spread, "topologyKey", f"{path}.topologyKey", required=True)
    faults.one_of(spread, "whenUnsatisfiable", f"{path}.whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"))
    selector = faults.mapping(spread, "labelSelector", f"{path}.labelSelector")
    if selector:
        check_selector(faults, selector, f"{path}.labelSelector")
    faults.integer(spread, "minDomains", f"{path}.minDomains", least=1)
    if spread.get("minDomains") is not None and spread.get("whenUnsatisfiable") == "ScheduleAnyway":
        faults.add(f"{path}.minDomains", "needs whenUnsatisfiable: DoNotSchedule")
    for key in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        faults.one_of(spread, key, f"{path}.{key}", ("Honor", "Ignore"))
    _check_keys_of_pods(faults, spread, path, ("matchLabelKeys",))


def _check_keys_of_pods(faults: Faults, term: dict[str, Any], path: str, fields: tuple[str, ...]) -> None:
    """Keys whose values a pod's own labels give. Source: Kubernetes validateMatchLabelKeysInTopologySpread and validatePodAffinityTerm."""
    seen: set[Any] = set()
    for field in fields:
        earlier = frozenset(seen)
        keys = faults.items(term, field, f"{path}.{field}") or []
        if keys and term.get("labelSelector") is None:
            faults.add(f"{path}.{field}", "needs a labelSelector")
        for index, key in enumerate(keys):
            if isinstance(key, str) and not is_label_key(key):
                faults.add(f"{path}.{field}[{index}]", "is not a valid label key; expected name or domain/name")
            elif isinstance(key, str) and key in earlier:
                faults.add(f"{path}.{field}[{index}]", f"{key!r:.80} is one of matchLabelKeys, too")
            seen.update((key,) if isinstance(key, str) else ())


def _check_expressions(
    faults: Faults,
    parent: dict[str, Any],
    key: str,
    path: str,
    operators: tuple[str, ...],
    any_value: bool = False,
) -> None:
    for at, expression in faults.mappings(parent, key, f"{path}.{key}"):
        name = faults.text(expression, "key", f"{at}.key", required=True)
        if name and not is_label_key(name):
            faults.add(f"{at}.key", "is not a valid label key; expected name or domain/name")
        operator = faults.one_of(expression, "operator", f"{at}.operator", operators)
        if "operator" not in expression:
            faults.add(f"{at}.operator", f"is required; expected {' or '.join(operators)}")
        values = faults.items(expression, "values", f"{at}.values") or []
        if not all(isinstance(value, str) for value in values):
            faults.add(f"{at}.values", "expected a list of text (quote numbers and true/false)")
        elif operator in ("In", "NotIn"):
            if not values:
                faults.add(f"{at}.values", f"must not be empty for {operator}")
            elif not any_value and not all(is_label_value(value) for value in values):
                faults.ratchet(f"{at}.values", "holds what can't be a label value")
        elif operator in ("Exists", "DoesNotExist") and values:
            faults.add(f"{at}.values", f"must be empty for {operator}")
        elif operator in ("Gt", "Lt") and (len(values) != 1 or not re.fullmatch(r"-?[0-9]{1,18}", values[0])):
            faults.add(f"{at}.values", f"expected one whole number, as text, for {operator}")


def _check_seconds(faults: Faults, value: Any, path: str) -> None:
    if quantities.parse_count(value, -1) >= 0:  # most are
        return
    # As the later reader: a number, not a quantity.
    seconds = quantities.decimal(value)
    if seconds is None or seconds < 0:
        faults.wrong(path, value, "seconds, zero or more, as text such as 90 or 0.5")


def _is_positive(value: Any) -> bool:
    return isinstance(value, str) and _POSITIVE.fullmatch(value) is not None and 0 < int(value) <= LARGEST_INT32


# --- nodes ------------------------------------------------------------------------------------------------------------

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check_node(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec") or {}
    faults.boolean(spec, "unschedulable", "spec.unschedulable")
    seen: set[tuple[Any, Any]] = set()
    for path, taint in faults.mappings(spec, "taints", "spec.taints"):
        key = faults.text(taint, "key", f"{path}.key", required=True)
        value = faults.text(taint, "value", f"{path}.value")
        if key and not is_label_key(key):
            faults.add(f"{path}.key", "is not a valid key; expected name or domain/name")
        if value and not is_label_value(value):
            faults.wrong(f"{path}.value", value, "a label value")
        effect = faults.one_of(taint, "effect", f"{path}.effect", EFFECTS)
        if "effect" not in taint:
            faults.add(f"{path}.effect", f"is required; expected {' or '.join(EFFECTS)}")
        if (key, effect) in seen:
            faults.add(path, "the same key and effect twice")
        seen.add((key, effect))
    status = faults.mapping(obj, "status", "status") or {}
    capacity = faults.quantities(status, "capacity", "status.capacity")
    allocatable = faults.quantities(status, "allocatable", "status.allocatable") or {}
    for name, amount in allocatable.items():
        if capacity and name in capacity and amount > capacity[name]:
            path = f"status.allocatable[{name}]"
            most = format_bytes(int(capacity[name])) if name == "memory" else str(float(capacity[name]))
            faults.ratchet(path, f"is more than the capacity of {most}")
    for path, condition in faults.mappings(status, "conditions", "status.conditions"):
        faults.text(condition, "type", f"{path}.type", required=True)
        faults.one_of(condition, "status", f"{path}.status", ("True", "False", "Unknown"))
