"""Rules for single fields that an API server checks and on which nothing in a lab acts: security contexts, DNS, probes, variables and
volumes of pods, sources of volumes, Services, network policies.

``_FIELDS`` has the rules for the fields of each type of ``core.json``, ``_TOGETHER`` those between the fields of one value. A field name
with ``!`` must not be missing or empty. ``field_faults`` applies them to a value and all below it.
Source: Kubernetes v1.35.4, pkg/apis/core/validation, pkg/apis/networking/validation.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from kailab.errors import InputError
from kailab.model.objects import Object
from kailab.model.quantities import parse
from kailab.model.validation import core
from kailab.model.validation.fields import (
    LABEL_RULE,
    LARGEST_INT32,
    NAME_RULE,
    SERVICE_RULE,
    VALUE_RULE,
    Fault,
    Faults,
    is_dns_label,
    is_dns_subdomain,
    is_label_key,
    is_label_value,
    is_service_label,
    shown,
)
from kailab.model.validation.shapes import Check, anything, items, map_of, one_of, record, whole


def text(fits: Callable[[str], object], expected: str) -> Check:
    """A text that fits. Other types are reported with the shape."""

    def check(value: Any) -> list[Fault] | None:
        if type(value) is not str or fits(value):
            return None
        return [Fault("", f"{shown(value)} is not valid; expected {expected}")]

    return check


def _matching(pattern: str, expected: str) -> Check:
    return text(re.compile(pattern, re.ASCII).fullmatch, expected)


def _is_ip(value: str) -> bool:
    # With zeros in front, as in fields that are older than the strict rule.
    plain = re.sub(r"(^|\.)0+(?=[0-9])", r"\1", value) if ":" not in value else value
    try:
        ipaddress.ip_address(plain)
    except ValueError:
        return False
    return "%" not in value


def _is_host(value: str) -> bool:
    return not value or is_dns_subdomain(value.removeprefix("*."))


def _is_network(value: str) -> bool:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return False
    return "/" in value


def is_port_name(name: str) -> bool:
    return len(name) <= 15 and _PORT_NAME.fullmatch(name) is not None


_PORT_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)


def _port(value: Any) -> list[Fault] | None:
    fits = 1 <= value <= 65535 if type(value) is int else is_port_name(value) if isinstance(value, str) else True
    return None if fits else [Fault("", f"{shown(value)} is not valid; expected 1 to 65535, or the name of a port")]


def _target(value: Any) -> list[Fault] | None:
    # 0 and "" stand for the port of the Service.
    return _port(value) if value else None


def _is_search(value: str) -> bool:
    plain = value.removesuffix(".")
    return value == "." or (len(plain) <= 253 and _SEARCH.fullmatch(plain) is not None)


def _is_user_name(value: str) -> bool:
    """``USER`` or ``DOMAIN\\USER``. Source: Kubernetes validateWindowsSecurityContextOptions."""
    domain, slash, user = value.rpartition("\\")
    known = not slash or (len(domain) < 256 and (_NETBIOS.fullmatch(domain) or _DOMAIN.fullmatch(domain)))
    return bool(known) and 0 < len(user) <= 104 and bool(user.strip(". ")) and not _NOT_IN_USERS.search(user)


def is_data_key(key: str) -> bool:
    """Whether ConfigMaps and Secrets can have the key."""
    return len(key) <= 253 and _KEY.fullmatch(key) is not None and key != "." and not key.startswith("..")


KEY_RULE = "a key of ConfigMaps and Secrets: letters, digits, '-', '_' and '.', 253 at most"
_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_SEARCH = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DOMAIN_LABEL = r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"{_DOMAIN_LABEL}(\.{_DOMAIN_LABEL})*", re.ASCII)
_NOT_IN_USERS = re.compile(r'[\x00-\x1f\x7f"/\\:;|=,+*?<>@\[\]]')

SUBDOMAIN = text(is_dns_subdomain, NAME_RULE)
SUBDOMAIN_OR_EMPTY = text(lambda value: not value or is_dns_subdomain(value), NAME_RULE)
LABEL = text(lambda value: not value or is_dns_label(value), LABEL_RULE)
IP = text(_is_ip, "an IP address such as 10.9.8.7 or 2001:db8::ff")
NETWORK = text(_is_network, "a network such as 10.9.8.0/24 or 2001:db8::/64")
HOST = text(_is_host, "a domain such as a.example.com or *.example.com")
PROTOCOL = one_of("", "TCP", "UDP", "SCTP")
ID = whole(0, LARGEST_INT32)
MODE = whole(0, 0o777)
BYTE = whole(0, 255)
RELATIVE = text(
    lambda value: not value.startswith("/") and ".." not in value.split("/"), "a relative path without '..'"
)
RESERVED = text(
    lambda value: not value.startswith(("/", "..")) and ".." not in value.split("/"),
    "a relative path that does not begin with '..' and has no '..' in it",
)
NO_BACKSTEPS = text(lambda value: ".." not in value.split("/"), "a path without '..'")
ABSOLUTE = text(lambda value: value.startswith("/"), "an absolute path")
VARIABLE = _matching(r"[ -<>-~]+", "printable characters without '='")
PREFIX = _matching(r"[ -<>-~]*", "printable characters without '='")
KEY = text(is_data_key, KEY_RULE)
PROFILES = one_of("RuntimeDefault", "Localhost", "Unconfined")
PULL = one_of("", "Always", "IfNotPresent", "Never")
MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ISCSI_NAME = _matching(
    r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9.-]+)(:[^,;*&$|\s]+)|eui.[0-9a-zA-Z]{16}|naa.[0-9a-zA-Z]{32}",
    "the name of an iSCSI target such as iqn.2001-04.com.example:storage",
)
_DRIVER = text(
    lambda value: len(value) <= 63 and is_dns_subdomain(value.lower()), "the name of a CSI driver, 63 letters at most"
)

_FIELDS: dict[str, dict[str, Check]] = {
    # pods
    "V1PodSpec": {
        "hostname": LABEL,
        "subdomain": LABEL,
        "dnsPolicy": one_of("", "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    },
    "V1PodOS": {"name!": one_of("linux", "windows")},
    "V1PodReadinessGate": {"conditionType!": text(is_label_key, "name or domain/name")},
    "V1HostAlias": {"ip!": IP, "hostnames": items(SUBDOMAIN)},
    "V1PodDNSConfig": {
        "nameservers": items(IP),
        "searches": items(text(_is_search, "a domain in lower-case letters, digits, '-', '_' and '.'")),
    },
    "V1PodDNSConfigOption": {"name!": anything},
    # security contexts
    "V1PodSecurityContext": {
        "fsGroup": ID,
        "runAsGroup": ID,
        "runAsUser": ID,
        "supplementalGroups": items(ID),
        "fsGroupChangePolicy": one_of("Always", "OnRootMismatch"),
        "supplementalGroupsPolicy": one_of("Merge", "Strict"),
        # MountOption needs a feature gate that is off.
        "seLinuxChangePolicy": one_of("Recursive"),
    },
    "V1Sysctl": {
        "name!": text(
            lambda value: (
                len(value) <= 253
                and re.fullmatch(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?", value)
            ),
            "a kernel parameter such as net.ipv4.ip_forward",
        )
    },
    "V1SecurityContext": {"runAsGroup": ID, "runAsUser": ID, "procMount": one_of("Default", "Unmasked")},
    "V1SeccompProfile": {"type!": PROFILES, "localhostProfile": RELATIVE},
    "V1AppArmorProfile": {
        "type!": PROFILES,
        "localhostProfile": text(
            lambda value: value and value == value.strip() and len(value) <= 4095, "a name without spaces around it"
        ),
    },
    "V1WindowsSecurityContextOptions": {
        "gmsaCredentialSpecName": SUBDOMAIN,
        "gmsaCredentialSpec": text(lambda value: 0 < len(value) <= 2**16, "1 to 65536 letters"),
        "runAsUserName": text(_is_user_name, "USER or DOMAIN\\USER"),
    },
    # containers
    "V1Container": {
        "imagePullPolicy": PULL,
        "terminationMessagePolicy": one_of("", "File", "FallbackToLogsOnError"),
    },
    "V1ContainerResizePolicy": {
        "resourceName!": one_of("cpu", "memory"),
        "restartPolicy!": one_of("NotRequired", "RestartContainer"),
    },
    "CoreV1ResourceClaim": {"request": LABEL},
    "V1EnvVar": {"name!": VARIABLE},
    "V1EnvFromSource": {"prefix": PREFIX},
    "V1ConfigMapEnvSource": {"name!": SUBDOMAIN},
    "V1SecretEnvSource": {"name!": SUBDOMAIN},
    "V1ConfigMapKeySelector": {"name!": SUBDOMAIN, "key!": KEY},
    "V1SecretKeySelector": {"name!": SUBDOMAIN, "key!": KEY},
    "V1ExecAction": {"command!": anything},
    "V1HTTPGetAction": {"port": _port, "scheme": one_of("", "HTTP", "HTTPS")},
    "V1HTTPHeader": {"name!": _matching(r"[-A-Za-z0-9]+", "the name of a header: letters, digits and '-'")},
    "V1TCPSocketAction": {"port": _port},
    "V1GRPCAction": {"port": _port},
    "V1VolumeMount": {
        "mountPath!": anything,
        "subPath": RELATIVE,
        "subPathExpr": RELATIVE,
        "mountPropagation": one_of("None", "HostToContainer", "Bidirectional"),
        "recursiveReadOnly": one_of("Disabled", "IfPossible", "Enabled"),
    },
    "V1VolumeDevice": {"name!": anything, "devicePath!": NO_BACKSTEPS},
    # volumes
    "V1Volume": {"name!": anything},
    "V1KeyToPath": {"key!": anything, "path!": RESERVED, "mode": MODE},
    "V1ConfigMapVolumeSource": {"name!": anything, "defaultMode": MODE},
    "V1SecretVolumeSource": {"secretName!": anything, "defaultMode": MODE},
    "V1ConfigMapProjection": {"name!": anything},
    "V1SecretProjection": {"name!": anything},
    "V1ProjectedVolumeSource": {"defaultMode": MODE},
    "V1DownwardAPIVolumeSource": {"defaultMode": MODE},
    "V1DownwardAPIVolumeFile": {"path!": RESERVED, "mode": MODE},
    "V1ServiceAccountTokenProjection": {"path!": RESERVED, "expirationSeconds": whole(600, 2**32)},
    "V1PersistentVolumeClaimVolumeSource": {"claimName!": anything},
    "V1EphemeralVolumeSource": {"volumeClaimTemplate!": anything},
    "V1PersistentVolumeClaimTemplate": {"spec!": anything},
    "V1PersistentVolumeClaimSpec": {
        "accessModes": items(one_of(*MODES)),
        "storageClassName": SUBDOMAIN_OR_EMPTY,
        "volumeMode": one_of("Block", "Filesystem"),
    },
    "V1HostPathVolumeSource": {
        "path!": NO_BACKSTEPS,
        "type": one_of(
            "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"
        ),
    },
    "V1ImageVolumeSource": {"reference!": anything, "pullPolicy": PULL},
    "V1CSIVolumeSource": {"driver!": _DRIVER, "nodePublishSecretRef": record({"name": SUBDOMAIN}, ("name",))},
    "V1LocalVolumeSource": {"path!": NO_BACKSTEPS},
    "V1NFSVolumeSource": {"server!": anything, "path!": ABSOLUTE},
    "V1ISCSIVolumeSource": {
        "targetPortal!": anything,
        "iqn!": _ISCSI_NAME,
        "initiatorName": _ISCSI_NAME,
        "lun": BYTE,
    },
    "V1GitRepoVolumeSource": {"repository!": anything, "directory": RELATIVE},
    "V1GlusterfsVolumeSource": {"endpoints!": anything, "path!": anything},
    "V1RBDVolumeSource": {"monitors!": anything, "image!": anything},
    "V1CephFSVolumeSource": {"monitors!": anything},
    "V1GCEPersistentDiskVolumeSource": {"pdName!": anything, "partition": BYTE},
    "V1AWSElasticBlockStoreVolumeSource": {"volumeID!": anything, "partition": BYTE},
    "V1AzureFileVolumeSource": {"secretName!": anything, "shareName!": anything},
    "V1AzureDiskVolumeSource": {"diskName!": anything, "diskURI!": anything},
    "V1CinderVolumeSource": {"volumeID!": anything},
    "V1FlexVolumeSource": {"driver!": anything},
    "V1VsphereVirtualDiskVolumeSource": {"volumePath!": anything},
    "V1PhotonPersistentDiskVolumeSource": {"pdID!": anything},
    "V1PortworxVolumeSource": {"volumeID!": anything},
    "V1QuobyteVolumeSource": {"registry!": anything, "volume!": anything},
    # networks
    "V1NetworkPolicySpec": {"policyTypes": items(one_of("Ingress", "Egress"))},
    "V1NetworkPolicyPort": {"port": _port, "protocol": one_of("TCP", "UDP", "SCTP"), "endPort": whole(1, 65535)},
    "V1IPBlock": {"cidr!": NETWORK, "except": items(NETWORK)},
    "V1ServiceSpec": {
        "type": one_of("", "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
        "sessionAffinity": one_of("", "ClientIP", "None"),
        "externalTrafficPolicy": one_of("", "Cluster", "Local"),
        "internalTrafficPolicy": one_of("Cluster", "Local"),
        "selector": map_of(text(is_label_value, VALUE_RULE)),
    },
    "V1ServicePort": {"port": whole(1, 65535), "targetPort": _target, "protocol": PROTOCOL, "name": LABEL},
    "V1IngressSpec": {"ingressClassName": SUBDOMAIN},
    "V1IngressTLS": {"hosts": items(HOST), "secretName": SUBDOMAIN_OR_EMPTY},
    "V1IngressRule": {"host": HOST},
    "V1IngressServiceBackend": {"name!": text(is_service_label, SERVICE_RULE)},
    "V1ServiceBackendPort": {"number": whole(1, 65535)},
    "V1HTTPIngressPath": {"pathType!": one_of("Exact", "Prefix", "ImplementationSpecific")},
}

# --- rules between the fields of one value ----------------------------------------------------------------------------

Together = Callable[[Object], Iterator[Fault]]

_DIVISORS = frozenset(parse(f"1{unit}") for unit in ("", *"kMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
_MILLI = frozenset((parse("1m"), parse("1")))
_OF_METADATA = ("metadata.name", "metadata.namespace", "metadata.uid")
_VARIABLE_PATHS = (*_OF_METADATA, "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")  # fmt: skip
_FILE_PATHS = (*_OF_METADATA, "metadata.labels", "metadata.annotations")
_SUBSCRIPT = re.compile(r"(.*)\['(.*)'\]", re.DOTALL)


def _below(value: Object, field: str) -> list[Object]:
    """The mappings in a list field."""
    given = value.get(field)
    return [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []


def _inner(value: Object, field: str) -> Object:
    given = value.get(field)
    return given if isinstance(given, dict) else {}


def _text(value: Object, field: str) -> str:
    given = value.get(field)
    return given if isinstance(given, str) else ""


def _field_of_pod(reference: Object, path: str, known: tuple[str, ...]) -> Iterator[Fault]:
    """A field of the pod itself: as the value of a variable, or in a file."""
    version, named = reference.get("apiVersion"), reference.get("fieldPath")
    if version not in (None, "", "v1"):
        yield Fault(f"{path}.apiVersion", f"{shown(version)} is not valid; expected v1")
    if not isinstance(named, str):
        return
    if part := _SUBSCRIPT.fullmatch(named):
        key = part[2].lower() if part[1] == "metadata.annotations" else part[2]
        if part[1] not in ("metadata.labels", "metadata.annotations") or not is_label_key(key):
            yield Fault(f"{path}.fieldPath", f"{shown(named)} names no label or annotation of a pod")
    # The older name of a field.
    elif (named if named != "spec.host" else "spec.nodeName") not in known:
        yield Fault(f"{path}.fieldPath", f"{shown(named)} is not valid; expected {' or '.join(known)}")


def _resource_of_container(reference: Object, path: str, container: bool) -> Iterator[Fault]:
    """A resource of a container. ``container``: it must be named."""
    named, divisor = reference.get("resource"), reference.get("divisor")
    if container and not reference.get("containerName"):
        yield Fault(f"{path}.containerName", "is required")
    if not isinstance(named, str):
        return
    part, _, resource = named.partition(".")
    huge = resource.startswith("hugepages-")
    if part not in ("limits", "requests") or not (huge or resource in ("cpu", "memory", "ephemeral-storage")):
        expected = "limits. or requests. with cpu, memory, ephemeral-storage or huge pages"
        yield Fault(f"{path}.resource", f"{shown(named)} is not valid; expected {expected}")
        return
    try:
        amount = parse(divisor if divisor is not None else 0)
    except InputError:
        return  # reported with the shape
    if amount and amount not in (_MILLI if resource == "cpu" else _DIVISORS):
        expected = "1 or 1m" if resource == "cpu" else "1, or 1 with a unit, such as 1Mi"
        yield Fault(f"{path}.divisor", f"{shown(divisor)} is not valid; expected {expected}")


def _source_of_variable(value: Object) -> Iterator[Fault]:
    yield from _field_of_pod(_inner(value, "fieldRef"), "fieldRef", _VARIABLE_PATHS)
    yield from _resource_of_container(_inner(value, "resourceFieldRef"), "resourceFieldRef", False)


def _file(value: Object) -> Iterator[Fault]:
    given = [field for field in ("fieldRef", "resourceFieldRef") if value.get(field) is not None]
    if len(given) != 1:
        yield Fault("", "expected exactly one of fieldRef and resourceFieldRef")
    elif isinstance(value[given[0]], dict):
        if given[0] == "fieldRef":
            yield from _field_of_pod(value["fieldRef"], "fieldRef", _FILE_PATHS)
        else:
            yield from _resource_of_container(value["resourceFieldRef"], "resourceFieldRef", True)


def _projected(value: Object) -> Iterator[Fault]:
    """Each path in the volume is written once."""
    seen: set[str] = set()
    for index, source in enumerate(_below(value, "sources")):
        for kind in ("configMap", "secret", "downwardAPI"):
            for number, item in enumerate(_below(_inner(source, kind), "items")):
                if (path := _text(item, "path")) and path in seen:
                    yield Fault(f"sources[{index}].{kind}.items[{number}].path", f"{shown(path)} is given twice")
                seen.add(path)
        for kind in ("serviceAccountToken", "clusterTrustBundle"):
            if (path := _text(_inner(source, kind), "path")) and path in seen:
                yield Fault(f"sources[{index}].{kind}.path", f"{shown(path)} is given twice")
            seen.add(path)


def _profile(value: Object) -> Iterator[Fault]:
    if value.get("type") == "Localhost" and value.get("localhostProfile") is None:
        yield Fault("localhostProfile", "is required for the type Localhost")
    elif value.get("type") in ("RuntimeDefault", "Unconfined") and value.get("localhostProfile") is not None:
        yield Fault("localhostProfile", "can only be given for the type Localhost")


def _dns(value: Object) -> Iterator[Fault]:
    for field, most in (("nameservers", 3), ("searches", 32)):
        if isinstance(given := value.get(field), list) and len(given) > most:
            yield Fault(field, f"has {len(given)}; expected {most} at most")
    if isinstance(given := value.get("searches"), list) and len(" ".join(map(str, given))) > 2048:
        yield Fault("searches", "is too long; expected 2048 letters at most, with the spaces between")


def _fibre_channel(value: Object) -> Iterator[Fault]:
    if bool(value.get("targetWWNs")) == bool(value.get("wwids")):
        yield Fault("targetWWNs", "expected either targetWWNs or wwids")
    if value.get("targetWWNs"):
        lun = value.get("lun")
        if lun is None:
            yield Fault("lun", "is required beside targetWWNs")
        elif isinstance(lun, int) and not 0 <= lun <= 255:
            yield Fault("lun", f"{shown(lun)} is not valid; expected 0 to 255")


def _mount(value: Object) -> Iterator[Fault]:
    if value.get("subPath") and value.get("subPathExpr"):
        yield Fault("subPathExpr", "can't be given together with subPath")
    if value.get("recursiveReadOnly") in ("IfPossible", "Enabled"):
        if not value.get("readOnly"):
            yield Fault("recursiveReadOnly", "needs readOnly: true")
        if value.get("mountPropagation") not in (None, "None"):
            yield Fault("recursiveReadOnly", "can't be given together with mountPropagation")


def _context(value: Object) -> Iterator[Fault]:
    if value.get("allowPrivilegeEscalation") is False:
        if value.get("privileged") is True:
            yield Fault("allowPrivilegeEscalation", "can't be false for a privileged container")
        added = _inner(value, "capabilities").get("add")
        if isinstance(added, list) and "CAP_SYS_ADMIN" in added:
            yield Fault("allowPrivilegeEscalation", "can't be false with the capability CAP_SYS_ADMIN")


def _pod_context(value: Object) -> Iterator[Fault]:
    yield from _given_once(value, "sysctls", "name")


def _given_once(value: Object, field: str, key: str) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, item in enumerate(_below(value, field)):
        if (name := _text(item, key)) and name in seen:
            yield Fault(f"{field}[{index}].{key}", f"{shown(name)} is given twice")
        seen.add(name)


def _container(value: Object) -> Iterator[Fault]:
    yield from _given_once(value, "resizePolicy", "resourceName")
    devices = {_text(device, "name"): _text(device, "devicePath") for device in _below(value, "volumeDevices")}
    yield from _given_once(value, "volumeDevices", "name")
    yield from _given_once(value, "volumeDevices", "devicePath")
    privileged = _inner(value, "securityContext").get("privileged") is True
    for index, mount in enumerate(_below(value, "volumeMounts")):
        at = f"volumeMounts[{index}]"
        if (name := _text(mount, "name")) and name in devices:
            yield Fault(f"{at}.name", "is one of volumeDevices, too")
        if (place := _text(mount, "mountPath")) and place in devices.values():
            yield Fault(f"{at}.mountPath", "is the path of one of volumeDevices, too")
        if mount.get("mountPropagation") == "Bidirectional" and not privileged:
            yield Fault(f"{at}.mountPropagation", "can only be Bidirectional in a privileged container")


_CONTAINERS = ("initContainers", "containers")
_OF_LONG_LIVED = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_ON = {
    "linux": (("windowsOptions",), ("windowsOptions",), ()),
    "windows": (
        (
            "appArmorProfile", "fsGroup", "fsGroupChangePolicy", "runAsGroup", "runAsUser", "seLinuxChangePolicy", "seLinuxOptions",
            "seccompProfile", "supplementalGroups", "supplementalGroupsPolicy", "sysctls",
        ),
        (
            "allowPrivilegeEscalation", "appArmorProfile", "capabilities", "privileged", "procMount", "readOnlyRootFilesystem", "runAsGroup",
            "runAsUser", "seLinuxOptions", "seccompProfile",
        ),
        ("hostIPC", "hostPID", "hostUsers", "shareProcessNamespace"),
    ),
}  # fmt: skip
"""Fields that pods of an operating system can't have: of the pod's security context, of a container's, and of the pod."""


def _pod(value: Object) -> Iterator[Fault]:
    """The rules between the pod and its containers."""
    system, context = _inner(value, "os").get("name"), _inner(value, "securityContext")
    of_pod, of_containers, of_spec = _NOT_ON.get(str(system), ((), (), ()))
    for fields, holder, path in ((of_pod, context, "securityContext."), (of_spec, value, "")):
        for field in fields:
            # Some are numbers and flags of which 0 and false are values.
            if holder.get(field) not in (None, [], {}) and not (field in ("hostIPC", "hostPID") and not holder[field]):
                yield Fault(f"{path}{field}", f"can't be given for a pod of {system}")
    if value.get("hostPID") and value.get("shareProcessNamespace"):
        yield Fault("shareProcessNamespace", "can't be given together with hostPID")
    own_users = value.get("hostUsers") is False
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if own_users and value.get(field):
            yield Fault(field, "can't be given together with hostUsers: false")
    windows = [context, *(_inner(each, "securityContext") for part in _CONTAINERS for each in _below(value, part))]
    if any(_inner(each, "windowsOptions").get("hostProcess") for each in windows) and not value.get("hostNetwork"):
        yield Fault("hostNetwork", "must be true for containers with hostProcess: true")
    grace = value.get("terminationGracePeriodSeconds")
    grace = grace if type(grace) is int else 30
    for part in _CONTAINERS:
        for index, container in enumerate(_below(value, part)):
            at, context = f"{part}[{index}]", _inner(container, "securityContext")
            for field in of_containers:
                if context.get(field) not in (None, {}):
                    yield Fault(f"{at}.securityContext.{field}", f"can't be given for a pod of {system}")
            if own_users and container.get("volumeDevices"):
                yield Fault(f"{at}.volumeDevices", "can't be given together with hostUsers: false")
            if context.get("procMount") == "Unmasked" and not own_users:
                yield Fault(f"{at}.securityContext.procMount", "can only be Unmasked with hostUsers: false")
            if part == "initContainers" and container.get("restartPolicy") != "Always":
                for field in _OF_LONG_LIVED:
                    if container.get(field) is not None:
                        yield Fault(f"{at}.{field}", "needs restartPolicy: Always in an init container")
            yield from _sleeps(container, at, grace)
            yield from _resizes(value, container, at)
            yield from _devices(value, container, at)


def _sleeps(container: Object, at: str, grace: int) -> Iterator[Fault]:
    lifecycle = _inner(container, "lifecycle")
    for hook in ("postStart", "preStop"):
        seconds = _inner(_inner(lifecycle, hook), "sleep").get("seconds")
        if type(seconds) is int and not 0 <= seconds <= grace:
            expected = f"0 to {grace}, the terminationGracePeriodSeconds"
            yield Fault(f"{at}.lifecycle.{hook}.sleep.seconds", f"{shown(seconds)} is not valid; expected {expected}")


def _resizes(pod: Object, container: Object, at: str) -> Iterator[Fault]:
    for index, policy in enumerate(_below(container, "resizePolicy")):
        if pod.get("restartPolicy") == "Never" and policy.get("restartPolicy") == "RestartContainer":
            yield Fault(f"{at}.resizePolicy[{index}].restartPolicy", "must be NotRequired in a pod that never restarts")


def _devices(pod: Object, container: Object, at: str) -> Iterator[Fault]:
    sources = {_text(volume, "name"): volume for volume in _below(pod, "volumes")}
    for index, device in enumerate(_below(container, "volumeDevices")):
        volume = sources.get(_text(device, "name"))
        if volume is not None and not (volume.get("persistentVolumeClaim") or volume.get("ephemeral")):
            yield Fault(f"{at}.volumeDevices[{index}].name", "is not a claim; expected a volume that is one")


def _service(value: Object) -> Iterator[Fault]:
    ports = _below(value, "ports")
    yield from _given_once(value, "ports", "name")
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            yield Fault(f"ports[{index}].name", "is required where there are several ports")
    if value.get("type") == "ExternalName":
        if not is_dns_subdomain(_text(value, "externalName").removesuffix(".")):
            yield Fault("externalName", f"{shown(value.get('externalName'))} is not valid; expected {NAME_RULE}")
    elif not ports and value.get("clusterIP") != "None":
        yield Fault("ports", "is required")


_TOGETHER: dict[str, Together] = {
    "V1PodSpec": _pod,
    "V1Container": _container,
    "V1PodSecurityContext": _pod_context,
    "V1SecurityContext": _context,
    "V1SeccompProfile": _profile,
    "V1AppArmorProfile": _profile,
    "V1PodDNSConfig": _dns,
    "V1EnvVarSource": _source_of_variable,
    "V1DownwardAPIVolumeFile": _file,
    "V1ProjectedVolumeSource": _projected,
    "V1FCVolumeSource": _fibre_channel,
    "V1VolumeMount": _mount,
    "V1ServiceSpec": _service,
}


def check_spec_fields(faults: Faults, obj: Object) -> None:
    """The check of a kind of Kubernetes whose spec has no other rules than these."""
    spec = obj.get("spec")
    if isinstance(spec, dict):
        for field, message in field_faults(f"V1{obj['kind']}Spec", spec):
            faults.ratchet(f"spec.{field}", message)


def field_faults(type: str, value: Object) -> Iterable[Fault]:
    """The faults of a value of a type, such as V1PodSpec, by these rules."""
    return _rules(type)(value) or ()


@cache
def _rules(type: str) -> Check:
    """The check of a type's fields by these rules, and of the types below it."""
    own = _FIELDS.get(type, {})
    fields: dict[str, Check] = {}
    for name, of in core.field_types(type).items():
        checks = [check for check in (own.get(name) or own.get(f"{name}!"), _below_field(of)) if check is not None]
        if checks:
            fields[name] = checks[0] if len(checks) == 1 else _all(*checks)
    each = record(fields)
    needed = tuple(name[:-1] for name in own if name.endswith("!"))
    together = _TOGETHER.get(type)
    if not needed and together is None:
        return each

    def check(value: Any) -> list[Fault] | None:
        faults = each(value) or []
        if isinstance(value, dict):
            missing = [name for name in needed if value.get(name) in (None, "", [], {})]
            faults = [fault for fault in faults if fault.field not in missing]
            faults += [Fault(name, "is required") for name in missing]
            faults += together(value) if together is not None else ()
        return faults or None

    return check


def _below_field(type: str) -> Check | None:
    """The rules of a field's type; None if there are none for it or below it."""
    if type[0] == "[":
        inner = _below_field(type[1:-1])
        return items(inner) if inner is not None else None
    if type[0] == "{":
        inner = _below_field(type[1:-1])
        return map_of(inner) if inner is not None else None
    if type in core.SCALARS or type[0] == "=":
        return None
    return _rules(type) if _has_rules(type) else None


@cache
def _has_rules(type: str) -> bool:
    inner = (of.strip("[]{}") for of in core.field_types(type).values())
    return (
        type in _FIELDS
        or type in _TOGETHER
        or any(of not in core.SCALARS and of[0] != "=" and _has_rules(of) for of in inner)
    )


def _all(*checks: Check) -> Check:
    def check(value: Any) -> list[Fault] | None:
        return [fault for each in checks for fault in each(value) or ()] or None

    return check
