"""The manifests that run the scheduler in a cluster: its account, what it may do, its Deployment."""

from __future__ import annotations

import re
from importlib.resources import files
from string import Template

from kailab.errors import InputError

FILES = ("rbac.yaml", "deployment.yaml")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def manifests(namespace: str, image: str) -> str:
    """As YAML text. Raises InputError for a namespace or an image that can't be one."""
    if not _NAMESPACE.fullmatch(namespace):
        raise InputError(f"--namespace {namespace!r}: expected lower-case letters, digits and -, at most 63")
    if not image or re.search(r"[\s\"'{}#,\[\]]", image):
        raise InputError(f"--image {image!r}: expected the name of an image, such as registry.example.com/kailab:1.0")
    folder = files(__package__)
    texts = [(folder / name).read_text(encoding="utf-8") for name in FILES]
    return "---\n".join(Template(text).substitute(namespace=namespace, image=image) for text in texts)
