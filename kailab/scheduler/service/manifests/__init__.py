"""The manifests that run the scheduler in a cluster: its account, what it may do, its Deployment."""

from __future__ import annotations

import re
from importlib.resources import files
from string import Template

from kailab.errors import InputError
from kailab.model.kinds import KINDS

FILES = ("rbac.yaml", "deployment.yaml")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def manifests(namespace: str, image: str) -> str:
    """As YAML text. Raises InputError for a namespace or an image that can't be one."""
    if not _NAMESPACE.fullmatch(namespace):
        raise InputError(f"--namespace {namespace!r}: expected lower-case letters, digits and -, at most 63")
    if not image or re.search(r"[\s\"'{}#,\[\]]", image):
        raise InputError(f"--image {image!r}: expected the name of an image, such as registry.example.com/kailab:1.0")
    values = {"namespace": namespace, "image": image, "owners": _owners()}
    folder = files(__package__)
    texts = [(folder / name).read_text(encoding="utf-8") for name in FILES]
    return "---\n".join(Template(text).substitute(values) for text in texts)


def _owners() -> str:
    """The rules that let the scheduler read whatever pods can belong to, an API group each."""
    groups: dict[str, list[str]] = {}
    for kind in KINDS.values():
        if kind.owns_pods:
            groups.setdefault(kind.group, []).append(kind.plural)
    return "\n".join(
        f"  - apiGroups: [{group}]\n    resources: [{', '.join(sorted(plurals))}]\n    verbs: [get, list, watch]"
        for group, plurals in groups.items()
    )
