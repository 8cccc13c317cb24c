"""The manifests that run the scheduler in a cluster (RBAC, Deployment), and those that let Prometheus scrape it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from string import Template

from kailab.errors import InputError
from kailab.model.kinds import KINDS
from kailab.model.multimap import multimap

EMPTY = '""'
"""The core API group in YAML."""
FILES = ("rbac.yaml", "deployment.yaml")
MONITORING = "monitoring.yaml"
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME_LABEL = "app.kubernetes.io/name"
_LABEL = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_INTERVAL = re.compile(r"[1-9][0-9]*(ms|s|m|h)")


def scheduler_manifests(namespace: str, image: str) -> str:
    """RBAC and Deployment as YAML text. Raises InputError for an invalid namespace or image."""
    _check_namespace(namespace)
    if not image or re.search(r"[\s\"'{}#,\[\]]", image):
        raise InputError(f"--image {image!r}: expected the name of an image, such as registry.example.com/kailab:1.0")
    values = {"namespace": namespace, "image": image, "owners": _owners()}
    return "---\n".join(_render(name, values) for name in FILES)


def monitoring(namespace: str, interval: str = "30s", labels: Mapping[str, str] | None = None) -> str:
    """A Service and a ServiceMonitor (monitoring.coreos.com/v1) for the scheduler of ``scheduler_manifests``, as YAML text. ``labels``: labels of the
    ServiceMonitor, by which a Prometheus selects it. Raises InputError for invalid values."""
    _check_namespace(namespace)
    if not _INTERVAL.fullmatch(interval):
        raise InputError(f"--interval {interval!r}: expected a number with ms, s, m or h, such as 30s")
    for name, value in (labels or {}).items():
        prefix, slash, key = name.rpartition("/")
        if not _LABEL.fullmatch(key) or (slash and not _PREFIX.fullmatch(prefix)):
            raise InputError(f"--label {name!r}: expected the name of a label, such as release")
        if name == _NAME_LABEL:
            raise InputError(f"--label {name}: it is kailab-scheduler, by which the Service is found")
        if value and not _LABEL.fullmatch(value):
            raise InputError(f"--label {name}={value}: expected letters, digits, -, _ and ., at most 63")
    lines = "".join(f"\n    {name}: {json.dumps(value)}" for name, value in (labels or {}).items())
    return _render(MONITORING, {"namespace": namespace, "interval": interval, "labels": lines})


def _render(name: str, values: Mapping[str, str]) -> str:
    return Template((files(__package__) / name).read_text(encoding="utf-8")).substitute(values)


def _check_namespace(namespace: str) -> None:
    if not _NAMESPACE.fullmatch(namespace):
        raise InputError(f"--namespace {namespace!r}: expected lower-case letters, digits and -, at most 63")


def _owners() -> str:
    """RBAC rules that let the scheduler read every kind that can own pods, one rule per API group."""
    groups = multimap((kind.group, kind.plural) for kind in KINDS.values() if kind.owns_pods)
    return "\n".join(
        f"  - apiGroups: [{group or EMPTY}]\n    resources: [{', '.join(sorted(plurals))}]\n    verbs: [get, list, watch]"
        for group, plurals in groups.items()
    )
