"""What its pods ask for: whole GPUs, shares of them, MIG profiles, CPU and memory, lowered to what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kailab.cluster.protocol import Object
from kailab.explain.steps.edits import annotated, of_pods, own_change
from kailab.explain.steps.manifest import Edit
from kailab.explain.steps.proposal import Proposal, Way
from kailab.explain.steps.setting import Setting
from kailab.model import labels
from kailab.model.kind import field_of
from kailab.model.quantities import cpu_millis, format_cpu, mem_bytes, parse_count
from kailab.model.validation.advice import pod_templates
from kailab.scheduler.reading.nodes import gpu_memory
from kailab.scheduler.reading.requests import of_containers, of_pod

TRIED = 4
_MEBI = 1 << 20
_PROFILE = re.compile(r"(\d+)g\.(\d+)gb.*")


def fewer_gpus(setting: Setting) -> Iterator[Way]:
    """As many GPUs a pod as the nodes have, where it asks for more."""
    yield from _lower(
        setting, labels.GPU_RESOURCE, "GPUs", counted_text, str, _offered(setting, labels.GPU_RESOURCE, counted_text)
    )


def less_cpu(setting: Setting) -> Iterator[Way]:
    """As much CPU as is free somewhere, then as nodes have in all."""
    amounts = _free(setting, "cpu") | _offered(setting, "cpu", cpu_millis)
    yield from _lower(setting, "cpu", "CPU", cpu_millis, format_cpu, amounts)


def less_memory(setting: Setting) -> Iterator[Way]:
    """As much memory as is free somewhere, then as nodes have in all."""
    # Down to whole MiB, as it is written: rounded up it would not fit.
    amounts = {one // _MEBI * _MEBI for one in _free(setting, "memory") | _offered(setting, "memory", mem_bytes)}
    yield from _lower(setting, "memory", "memory", mem_bytes, lambda amount: f"{amount // _MEBI}Mi", amounts)


def smaller_share(setting: Setting) -> Iterator[Way]:
    """A share by memory no larger than a GPU has, or of no more GPUs than a node has."""
    notes = ((setting.pod or {}).get("metadata") or {}).get("annotations") or {}
    asked = parse_count(notes.get(labels.GPU_MEMORY))
    there = sorted({gpu_memory(node["metadata"].get("labels") or {}) for node in setting.nodes.values()}, reverse=True)
    for memory in [one for one in there if 0 < one < asked][:TRIED]:

        def words_memory(obj: Object) -> str:
            return f"Ask for {_note(obj, labels.GPU_MEMORY)} MiB of a GPU (annotation {labels.GPU_MEMORY}, now {asked})"

        yield Way.of(own_change(setting, words_memory, _noted(labels.GPU_MEMORY, str(memory))))
    devices = parse_count(notes.get(labels.GPU_FRACTION_DEVICES))
    counts = sorted(_offered(setting, labels.GPU_RESOURCE, counted_text), reverse=True)
    for number in [one for one in counts if 0 < one < devices][:TRIED]:

        def words_devices(obj: Object) -> str:
            note = labels.GPU_FRACTION_DEVICES
            return f"Ask for a share of {_note(obj, note)} GPUs (annotation {note}, now {devices})"

        yield Way.of(own_change(setting, words_devices, _noted(labels.GPU_FRACTION_DEVICES, str(number))))


def share_by_fraction(setting: Setting) -> Iterator[Way]:
    """A fraction of a GPU in the place of an amount of its memory, which nobody needs to know then."""
    notes = ((setting.pod or {}).get("metadata") or {}).get("annotations") or {}
    if labels.GPU_MEMORY not in notes:
        return

    def edit(holder: Object) -> None:
        annotated(labels.GPU_MEMORY, None)(holder)
        _noted(labels.GPU_FRACTION, "0.5")(holder)

    yield Way.of(
        own_change(setting, f"Ask for half a GPU (annotation {labels.GPU_FRACTION}: 0.5) and not by memory", edit)
    )


def another_profile(setting: Setting) -> Iterator[Way]:
    """A MIG profile that nodes offer: the smallest that is large enough, then the largest there is."""
    asked = sorted({key for pod in _pods(setting) for key in _resources(pod) if key.startswith(labels.MIG_PREFIX)})
    there = {key for node in setting.nodes.values() for key in field_of(node, "status.allocatable") or {}}
    offered = {key for key in there if key.startswith(labels.MIG_PREFIX)}
    for wanted in asked:
        if wanted in offered:
            continue
        size = _size(wanted)
        proposals: list[Proposal] = []
        # Large enough first, and of these the smallest; then the largest of those that are too small.
        for profile in sorted(offered, key=lambda one: (_size(one) < size, abs(_size(one) - size), one))[:TRIED]:

            def edit(pod: Object, wanted: str = wanted, profile: str = profile) -> None:
                for holder in _holders(pod):
                    if wanted in holder:
                        holder[profile] = holder.pop(wanted)

            do = f"Ask for {profile}, which nodes offer, instead of {wanted}"
            proposals += own_change(setting, do, of_pods(edit))
        yield Way(tuple(proposals))
    if asked:
        whole = any(
            counted_text(value)
            for value in (_allocatable(node, labels.GPU_RESOURCE) for node in setting.nodes.values())
        )

        def edit_whole(pod: Object) -> None:
            for holder in _holders(pod):
                for wanted in asked:
                    if wanted in holder:
                        holder[labels.GPU_RESOURCE] = holder.pop(wanted)

        if whole:
            yield Way.of(own_change(setting, f"Ask for whole GPUs instead of {asked[0]}", of_pods(edit_whole)))


def counted_text(value: Any) -> int:
    return parse_count(str(value))


def _lower(setting: Setting, key: str, what: str, read: Any, write: Any, amounts: set[int]) -> Iterator[Way]:
    """Ask for one of ``amounts`` a pod, the largest that is less than what is asked for now first."""
    pods = _pods(setting)
    asked = max((of_pod(pod["spec"]).get(key, 0) for pod in pods), default=0)
    containers, beside = (max((count(pod, key) for pod in pods), default=0) for count in (_of_containers, _beside))
    also = f", beside the {write(beside)} of its sidecars and its overhead" if beside else ""

    def words(obj: Object) -> str:
        left = max((_of_containers(pod, key) for _, pod in pod_templates(obj)), default=0)
        return f"Ask for {write(left)} {what} a pod (now {write(containers)}{also})"

    lower = [one for one in sorted(amounts, reverse=True) if beside < one < asked][:TRIED]
    edits = [of_pods(_asking(key, read, write, amount)) for amount in lower]
    yield Way.of(one for edit in edits for one in own_change(setting, words, edit))


def _of_containers(pod: Object, key: str) -> int:
    return of_containers(_containers(pod)).get(key, 0)


def _beside(pod: Object, key: str) -> int:
    """What a pod asks for beside its containers: for sidecars and for its overhead."""
    spec = pod["spec"]
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return of_pod({"initContainers": sidecars, "overhead": spec.get("overhead")}).get(key, 0)


def _asking(key: str, read: Any, write: Any, amount: int) -> Edit:
    """Lowers what the container asks for that asks for most, and init containers, so that the whole pod asks for no more than
    ``amount``."""

    def edit(pod: Object) -> None:
        most, containers = amount - _beside(pod, key), list(_containers(pod))
        amounts = [read(_asked(one, key)) for one in containers]
        if (over := sum(amounts) - most) > 0:
            # Of several containers the one that asks for most can best do with less.
            largest = max(range(len(amounts)), key=lambda index: amounts[index])
            _set(containers[largest], max(0, amounts[largest] - over))
        for one in pod["spec"].get("initContainers") or ():
            # These run one after the other, before the containers and beside sidecars.
            if one.get("restartPolicy") != "Always" and read(_asked(one, key)) > most:
                _set(one, most)

    def _set(container: Object, left: int) -> None:
        for field in ("requests", "limits"):
            holder = (container.get("resources") or {}).get(field)
            if (
                holder
                and key in holder
                and (field == "requests" or key == labels.GPU_RESOURCE or read(holder[key]) < left)
            ):
                holder[key] = write(left) if key != labels.GPU_RESOURCE else left

    return edit


def _pods(setting: Setting) -> list[Object]:
    rows = [setting.pods[row.name] for row in setting.waiting if row.name in setting.pods]
    return rows or ([setting.pod] if setting.pod is not None else [])


def _containers(pod: Object) -> Iterator[Object]:
    yield from pod["spec"].get("containers") or ()


def _asked(container: Object, key: str) -> Any:
    resources = container.get("resources") or {}
    return (resources.get("requests") or {}).get(key, (resources.get("limits") or {}).get(key, 0))


def _holders(pod: Object) -> Iterator[dict[str, Any]]:
    for container in _containers(pod):
        for field in ("requests", "limits"):
            if isinstance(holder := (container.get("resources") or {}).get(field), dict):
                yield holder


def _resources(pod: Object) -> Iterator[str]:
    for holder in _holders(pod):
        yield from holder


def _allocatable(node: Object, key: str) -> Any:
    return (field_of(node, "status.allocatable") or {}).get(key, 0)


def _offered(setting: Setting, key: str, read: Any) -> set[int]:
    return {read(_allocatable(node, key)) for node in setting.nodes.values()}


def _free(setting: Setting, field: str) -> set[int]:
    """What each node has left of CPU or memory, by the engine's records."""
    snapshot = setting.standing.moment.snapshot
    left = {node.name: getattr(node, field) for node in snapshot.nodes}
    for task in snapshot.tasks:
        if task.node in left:
            left[task.node] -= getattr(task.shape, field)
    return set(left.values())


def _note(obj: Object, key: str) -> str:
    found = ((pod.get("metadata") or {}).get("annotations") or {} for _, pod in pod_templates(obj))
    return next((str(notes[key]) for notes in found if key in notes), "")


def _noted(key: str, value: str) -> Edit:
    """An annotation on each pod and template; they are read off the pods."""

    def edit(obj: Object) -> None:
        def note(pod: Object) -> None:
            metadata = pod.setdefault("metadata", {})
            metadata["annotations"] = {**(metadata.get("annotations") or {}), key: value}

        of_pods(note)(obj)

    return edit


def _size(resource: str) -> int:
    match = _PROFILE.fullmatch(resource.removeprefix(labels.MIG_PREFIX))
    return int(match[2]) if match is not None else 0
