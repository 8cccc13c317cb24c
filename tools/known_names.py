"""Write kailab/snapshots/known_names.txt: words that anonymising keeps, because kailab itself knows them (fields of objects, enumerated values of
Kubernetes and KAI, parts of label keys, resources and groups). Run it when a test reports a missing word:

    python -m tools.known_names
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
KAILAB = ROOT / "kailab"
FILE = KAILAB / "snapshots" / "known_names.txt"
READERS = (
    "cluster/embedded", "cluster/kubernetes", "cluster/stages.py", "engine/snapshot/gpu_requests.py", "evidence/redaction.py", "grouping", "kinds", "lab/cluster_copies.py",
    "snapshots", "model", "operators", "scheduler/mirror", "scheduler/reading", "scheduler/status", "scheduler/binding", "workloads",
)  # fmt: skip
"""Packages and modules that read or write objects."""
# Fields and label values of other programs, which decisions or people read.
ALSO = """
attributes architecture cudaComputeCapability cudaDriverVersion driverVersion index memory minor parentUUID pcieRoot productName profile uuid brand
computeCapability driver dra allocationMode BestEffort hugepages ephemeral storage attachable volumes count requests limits pods cpu gpu mig gb shared product
family replicas sharing strategy present machine mode zone region instance type arch os hostname topology beta failure domain stable node role worker control
plane accelerator infiniband pci amd64 arm64 linux windows device class hourly daily weekly monthly yearly annually midnight reboot MON TUE WED THU FRI SAT SUN
JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC true false quantity semver isGreaterThan isLessThan compareTo matches startsWith endsWith contains exists all
size has cel filter map in AcceptedCapacity ReadWriteOncePod ReadOnlyMany Filesystem Block WaitForFirstConsumer Immediate VolumeBindingMode Honor Retain Delete
OnDelete AnyOrder AtStartup PodLevel single numa best effort restricted pod container scope preemptible non semi sigs x com io dev org ai OOMKilled Error Evicted Unschedulable UnschedulableOnNodePool
"""
_WORD = re.compile(r"[A-Za-z0-9]+")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_KEY = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9._-]*|[a-z0-9]+(?:[.-][a-z0-9]+)+|\.[a-z0-9.]+")


def collect_words() -> set[str]:
    """All known words of the sources."""
    words = set(ALSO.split())
    for path in KAILAB.rglob("*.py"):
        if path.relative_to(KAILAB).as_posix().startswith(READERS):
            for text in _texts(path):
                if _NAME.fullmatch(text):
                    words.add(text)
                elif _KEY.fullmatch(text):
                    words.update(_WORD.findall(text))
    for path in KAILAB.rglob("*.json"):
        if path.is_relative_to(KAILAB / "model" / "validation"):
            table = json.loads(path.read_text(encoding="utf-8"))
            # The types of kinds.json have names of kailab's own.
            words |= set(_fields(table)) - (set(table) if path.name == "kinds.json" else set())
    return {word for word in words if not word.isdigit()}


def _texts(path: Path) -> Iterator[str]:
    """The strings of a module, and the fields of the records that it defines, by their names in manifests."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.ClassDef) and any("KubernetesRecord" in ast.unparse(base) for base in node.bases):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    first, *rest = field.target.id.split("_")
                    yield first + "".join(word.capitalize() for word in rest)


def _fields(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from _WORD.findall(key)
            yield from _fields(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _fields(inside)
    elif isinstance(value, str):
        yield from _WORD.findall(value)


def main() -> None:
    FILE.write_text(textwrap.fill(" ".join(sorted(collect_words())), 140) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
