"""Fleet files: YAML to a ``Fleet``, with every problem named by file, line and field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kailab.errors import InputError, Where
from kailab.fleet import nodes_of_cluster
from kailab.fleet.fleet import Fleet, Level, Pool, fill_template
from kailab.fleet.library import find_fleet
from kailab.fleet.nodes_of_cluster import MOST_NODES
from kailab.model import files, kinds, quantities, yamltext
from kailab.model.file_trees import TreeFile, is_packed, read_tree
from kailab.model.files import decode_text, read_bytes
from kailab.model.objects import metadata_of, name_of
from kailab.model.schema_files import SchemaFault, find_schema_faults, raise_schema_faults, read_schema
from kailab.model.times import parse_time
from kailab.model.validation import validate
from kailab.model.validation.fields import is_dns_subdomain, is_label_value, shown

LARGEST_FILE = 16 * 2**20  # bytes
SCHEMA = Path(__file__).with_name("schema.json")
_BRACES = re.compile(r"[{}]")


def load_fleet(name_or_path: str | Path) -> Fleet:
    """Load a fleet by name (``lesson``) or path. A path may also lead to the nodes of a cluster (a file, a folder, an archive): then the fleet
    has these nodes. Raises InputError, or InputErrors with every problem found."""
    path = find_fleet(name_or_path)
    if path.is_dir() or _is_packed(path):
        return nodes_of_cluster.fleet_of_files(read_tree(path), path)
    data = read_bytes(path, files.LARGEST_FILE)
    if len(data) <= LARGEST_FILE:
        return read_fleet(decode_text(data, str(path)), str(path))
    return nodes_of_cluster.fleet_of_files([TreeFile(str(path), data)], path)


def _is_packed(path: Path) -> bool:
    if not path.is_file():
        return False
    with files.open_file(path) as file:
        return is_packed(file.read(512))


def read_fleet(text: str, file: str = "<text>") -> Fleet:
    """A fleet from YAML text; ``file`` names it in errors."""
    documents = list(yamltext.read_documents(text, file))
    if any(_is_of_kubernetes(value) for value, _ in documents):
        return nodes_of_cluster.fleet_of_files([TreeFile(file, text.encode())], Path(file))
    if len(documents) != 1:
        raise InputError(f"{len(documents)} documents; expected one fleet", Where(file=file))
    [(value, lines)] = documents
    return _FleetReader(value, lines, file).fleet()


def _is_of_kubernetes(value: Any) -> bool:
    """Whether a document is a Kubernetes object or a list of them."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if isinstance(kind, str) and str(value.get("apiVersion", "")).startswith("kailab.dev/"):
        return False
    if kind is None and isinstance(value, dict) and isinstance(value.get("items"), list):
        return True  # a list whose end is missing, where kubectl writes the kind
    return isinstance(kind, str) and (
        kind == "Node" or kind.endswith("List") or isinstance(value.get("metadata"), dict)
    )


class _FleetReader:
    """Reads one fleet document and collects its errors. ``lines``: the lines of its values."""

    def __init__(self, value: Any, lines: Any, file: str) -> None:
        self.value = value
        self.lines = lines
        self.file = file
        self.faults: list[SchemaFault] = []

    def fail(self, path: str, message: str) -> None:
        self.faults.append(SchemaFault(path, message))

    def raise_errors(self) -> None:
        name = self.value.get("name") if isinstance(self.value, dict) else None
        title = f"Fleet/{name:.80}" if isinstance(name, str) else "Fleet"
        raise_schema_faults(self.faults, self.lines, self.file, title)

    def fleet(self) -> Fleet:
        self.faults += find_schema_faults(self.value, read_schema(SCHEMA))
        self.raise_errors()
        value = self.value
        pools = [self.pool(pool, f"pools[{index}]") for index, pool in enumerate(value["pools"])]
        topologies = [self.topology(item, f"topologies[{i}]") for i, item in enumerate(value.get("topologies", ()))]
        classes = [
            self.priority_class(item, f"priorityClasses[{index}]")
            for index, item in enumerate(value.get("priorityClasses", ()))
        ]
        self.raise_errors()
        fleet = Fleet(
            name=value["name"],
            description=value.get("description", ""),
            pools=tuple(pool for pool in pools if pool is not None),
            topologies=tuple(topologies),
            priority_classes=tuple(classes),
            start_time=self.start_time(),
            file=self.file,
        )
        self.check_names(fleet)
        self.check_levels(fleet)
        self.raise_errors()
        return fleet

    def start_time(self) -> float | None:
        text = self.value.get("startTime")
        if text is None:
            return None
        try:
            return parse_time(text)
        except InputError as error:
            self.fail("startTime", error.message)
            return None

    def pool(self, value: dict[str, Any], path: str) -> Pool | None:
        before = len(self.faults)
        gpus = value.get("gpus", 0)
        mig = value.get("mig", {})
        for key in ("gpuModel", "gpuVendor", "gpuMemory", "mig"):
            if key in value and not gpus:
                self.fail(f"{path}.{key}", "the pool has no GPUs; give gpus too, or leave this out")
        for key in ("gpuMemory", "mig"):
            if key in value and value.get("gpuVendor") == "amd":
                self.fail(f"{path}.{key}", "applies to NVIDIA GPUs only; leave it out, or gpuVendor")
        if mig.get("strategy") == "single" and len(mig["profiles"]) != 1:
            self.fail(f"{path}.mig.profiles", "strategy single splits all devices alike; expected one profile")
        for key in ("cpu", "memory"):
            self.quantity(value[key], f"{path}.{key}", whole=False)
        for name, amount in value.get("resources", {}).items():
            self.quantity(amount, f"{path}.resources[{name}]", whole=True)
        template = value.get("nameTemplate", "{pool}-{index}")
        self.check_template(template, f"{path}.nameTemplate", value["count"] > 1)
        layout = self.layout(value.get("layout", []), f"{path}.layout")
        memory = self.gpu_memory(value.get("gpuMemory", 0), f"{path}.gpuMemory")
        if len(self.faults) > before:
            return None
        pool = Pool(
            name=value["name"],
            count=value["count"],
            cpu=_text(value["cpu"]),
            memory=_text(value["memory"]),
            pods=value.get("pods", 110),
            gpus=gpus,
            gpu_model=value.get("gpuModel", ""),
            gpu_vendor=value.get("gpuVendor", "nvidia"),
            gpu_memory_mib=memory,
            mig_strategy=mig.get("strategy", ""),
            mig=dict(mig.get("profiles", {})),
            resources={name: _text(amount) for name, amount in value.get("resources", {}).items()},
            name_template=template,
            start_index=value.get("startIndex", 0),
            node_labels=dict(value.get("labels", {})),
            annotations=dict(value.get("annotations", {})),
            taints=tuple(value["taints"]) if "taints" in value else None,
            unschedulable=value.get("unschedulable", False),
            layout=layout,
        )
        self.check_node(pool, path)
        return pool

    def quantity(self, value: Any, path: str, whole: bool) -> None:
        try:
            (quantities.whole_amount if whole else quantities.mem_bytes)(value)
            quantities.cpu_millis(value)
        except InputError as error:
            self.fail(path, error.message)

    def gpu_memory(self, value: Any, path: str) -> int:
        try:
            if isinstance(value, str):
                return quantities.mem_bytes(value) // 2**20
            return quantities.whole_amount(value)
        except InputError as error:
            self.fail(path, error.message)
            return 0

    def check_template(self, template: str, path: str, several: bool) -> None:
        name = fill_template(template, "p", 0)
        if _BRACES.search(name):
            self.fail(
                path, f"{shown(template)} is not valid; expected {{pool}}, {{index}} or {{index:03}} as placeholders"
            )
        elif several and fill_template(template, "p", 1) == name:
            self.fail(path, f"{shown(template)} gives every node the same name; expected {{index}} in it")

    def layout(self, items: list[dict[str, Any]], path: str) -> tuple[Level, ...]:
        levels: list[Level] = []
        for index, item in enumerate(items):
            at = f"{path}[{index}]"
            stem = item["label"].rpartition("/")[2]
            name = item.get("name", f"{stem}-{{index}}")
            if _BRACES.search(fill_template(name, "", 0)) or "{pool}" in name:
                self.fail(
                    f"{at}.name", f"{shown(name)} is not valid; expected {{index}} or {{index:03}} as placeholders"
                )
            elif not is_label_value(fill_template(name, "", 0)):
                self.fail(f"{at}.name", f"{shown(name)} does not make label values")
            if levels and levels[-1].nodes % item["nodes"]:
                wider = levels[-1]
                text = f"a {wider.label} of {wider.nodes} nodes does not divide into domains of {item['nodes']}"
                self.fail(f"{at}.nodes", f"{text}; levels come widest first")
            levels.append(Level(label=item["label"], nodes=item["nodes"], name=name, start=item.get("start", 0)))
        return tuple(levels)

    def check_node(self, pool: Pool, path: str) -> None:
        """The rules for nodes, checked on the first of each pool; the others differ only in name and domain."""
        node = next(iter(pool.nodes()), None)
        if node is None:
            return
        for field, message in validate(node, "Node"):
            key = field.removeprefix("metadata.").removeprefix("spec.").replace("status.allocatable", "resources")
            key = "nameTemplate" if key == "name" else key
            if not field.startswith("status.capacity"):
                self.fail(f"{path}.{key}", message)
        last = pool.node_name(pool.count - 1)
        if not is_dns_subdomain(last):
            self.fail(f"{path}.nameTemplate", f"makes {shown(last)}, which is no node name")

    def topology(self, value: dict[str, Any], path: str) -> dict[str, Any]:
        made = {
            "apiVersion": kinds.api_version_of("Topology"),
            "kind": "Topology",
            "metadata": {"name": value["name"]},
            "spec": {"levels": [{"nodeLabel": label} for label in value["levels"]]},
        }
        for field, message in validate(made, "Topology"):
            self.fail(
                f"{path}.{field.removeprefix('metadata.').removeprefix('spec.').removesuffix('.nodeLabel')}", message
            )
        return made

    def priority_class(self, value: dict[str, Any], path: str) -> dict[str, Any]:
        made = {
            "apiVersion": kinds.api_version_of("PriorityClass"),
            "kind": "PriorityClass",
            "metadata": {"name": value["name"]},
            **{key: item for key, item in value.items() if key != "name"},
        }
        for field, message in validate(made, "PriorityClass"):
            self.fail(f"{path}.{field.removeprefix('metadata.')}", message)
        return made

    def check_names(self, fleet: Fleet) -> None:
        """Names of nodes, pools, topologies and priority classes must be unique."""
        total = sum(pool.count for pool in fleet.pools)
        if total > MOST_NODES:
            self.fail("pools", f"{total:,} nodes in all; expected {MOST_NODES:,} at most")
            return
        self.check_unique([pool.name for pool in fleet.pools], "pools", "pool")
        self.check_unique([name_of(item) for item in fleet.topologies], "topologies", "topology")
        self.check_unique([name_of(item) for item in fleet.priority_classes], "priorityClasses", "class")
        owner: dict[str, int] = {}
        for index, pool in enumerate(fleet.pools):
            for position in range(pool.count):
                name = pool.node_name(position)
                other = owner.setdefault(name, index)
                if other != index:
                    text = f"node {name!r} is in pool {fleet.pools[other].name!r} too"
                    self.fail(f"pools[{index}]", f"{text}; give another nameTemplate or startIndex")
                    break

    def check_unique(self, names: list[str], path: str, noun: str) -> None:
        for index, name in enumerate(names):
            if name in names[:index]:
                self.fail(f"{path}[{index}].name", f"there are two of {noun} {name!r}")

    def check_levels(self, fleet: Fleet) -> None:
        """Some node must have the label of each topology level, because no work fits a topology without nodes."""
        labels: set[str] = {"kubernetes.io/hostname"}
        for pool in fleet.pools:
            first = next(iter(pool.nodes()), None)
            labels.update(metadata_of(first)["labels"] if first else ())
        for index, topology in enumerate(fleet.topologies):
            for place, level in enumerate(topology["spec"]["levels"]):
                if level["nodeLabel"] not in labels:
                    text = f"no node carries the label {level['nodeLabel']!r}; give it in labels or layout of a pool"
                    self.fail(f"topologies[{index}].levels[{place}]", text)


def _text(quantity: Any) -> str:
    return quantity if isinstance(quantity, str) else f"{quantity}"
