"""Proposals about what pods request (GPUs, shares, MIG profiles, CPU, memory) and how many pods a gang has or needs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.relaxing.rules import GangLowered, OthersGone
from kailab.engine.working.layout import CPU, MEMORY
from kailab.evidence.wording import count, some
from kailab.explain.steps.proposals import (
    Disturbance,
    Edit,
    ObjectsAfterChanges,
    Proposal,
    ProposalFamily,
    apply_change,
    as_manifest,
    edit_of_pods,
    own_change,
    patch_change,
    replace_changes,
    set_annotation,
    spec_patch,
)
from kailab.explain.steps.question_context import QuestionContext, kind_and_name
from kailab.explain.subject import min_member, wanted_pods
from kailab.model import labels
from kailab.model.kind import field_of
from kailab.model.kinds import kind_key
from kailab.model.objects import spec_of
from kailab.model.quantities import cpu_millis, format_cpu, mem_bytes, parse_count
from kailab.model.validation.advice import pod_templates
from kailab.model.validation.fields import is_extended
from kailab.scheduler.reading.nodes import gpu_memory
from kailab.scheduler.reading.requests import pod_amounts, sum_of_containers

MOST_AMOUNTS = 4
_MEBI = 1 << 20
_PROFILE = re.compile(r"(\d+)g\.(\d+)gb.*")


def lower_gpus(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Lower the GPUs of a pod to what nodes have."""
    yield from _lower(
        context,
        labels.GPU_RESOURCE,
        "GPUs",
        parse_whole_amount,
        str,
        _offered(context, labels.GPU_RESOURCE, parse_whole_amount),
    )


def lower_cpu(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Lower the CPU of a pod to what a node has free, or to a node's capacity."""
    amounts = _free(context, CPU) | _offered(context, "cpu", cpu_millis)
    yield from _lower(context, "cpu", "CPU", cpu_millis, format_cpu, amounts)


def lower_memory(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Lower the memory of a pod to what a node has free, or to a node's capacity."""
    # Manifests have whole MiB; rounded up it would not fit.
    amounts = {amount // _MEBI * _MEBI for amount in _free(context, MEMORY) | _offered(context, "memory", mem_bytes)}
    yield from _lower(context, "memory", "memory", mem_bytes, lambda amount: f"{amount // _MEBI}Mi", amounts)


def lower_extended(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Lower extended resources other than GPUs, such as RDMA devices, to what nodes have, or to none."""
    requested = {name for pod in _pods(context) for name in _resources(pod)}
    for key in sorted(requested - {labels.GPU_RESOURCE}):
        if is_extended(key) and not key.startswith(labels.MIG_PREFIX):
            amounts = _offered(context, key, parse_whole_amount) | {0}
            yield from _lower(context, key, key, parse_whole_amount, str, amounts, least=0)


def lower_gpu_share(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Lower a share by memory to what a GPU has, or the number of shared GPUs to what a node has."""
    notes = ((context.pod or {}).get("metadata") or {}).get("annotations") or {}
    asked = parse_count(notes.get(labels.GPU_MEMORY))
    memories = sorted(
        {gpu_memory(node["metadata"].get("labels") or {}) for node in context.nodes.values()}, reverse=True
    )
    for memory in [size for size in memories if 0 < size < asked][:MOST_AMOUNTS]:

        def words_memory(obj: Object) -> str:
            return f"Ask for {_note(obj, labels.GPU_MEMORY)} MiB of a GPU (annotation {labels.GPU_MEMORY}, now {asked})"

        yield ProposalFamily.of(own_change(context, words_memory, _noted(labels.GPU_MEMORY, str(memory))))
    devices = parse_count(notes.get(labels.GPU_FRACTION_DEVICES))
    counts = sorted(_offered(context, labels.GPU_RESOURCE, parse_whole_amount), reverse=True)
    for number in [gpus for gpus in counts if 0 < gpus < devices][:MOST_AMOUNTS]:

        def words_devices(obj: Object) -> str:
            note = labels.GPU_FRACTION_DEVICES
            return f"Ask for a share of {_note(obj, note)} GPUs (annotation {note}, now {devices})"

        yield ProposalFamily.of(own_change(context, words_devices, _noted(labels.GPU_FRACTION_DEVICES, str(number))))


def request_gpu_fraction(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Request a fraction of a GPU instead of an amount of its memory, which then need not be known."""
    notes = ((context.pod or {}).get("metadata") or {}).get("annotations") or {}
    if labels.GPU_MEMORY not in notes:
        return

    def edit(holder: Object) -> None:
        set_annotation(labels.GPU_MEMORY, None)(holder)
        _noted(labels.GPU_FRACTION, "0.5")(holder)

    yield ProposalFamily.of(
        own_change(context, f"Ask for half a GPU (annotation {labels.GPU_FRACTION}: 0.5) and not by memory", edit)
    )


def change_mig_profile(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Request a MIG profile that nodes offer: the smallest that is large enough, then the largest."""
    asked = sorted({key for pod in _pods(context) for key in _resources(pod) if key.startswith(labels.MIG_PREFIX)})
    resources = {key for node in context.nodes.values() for key in field_of(node, "status.allocatable") or {}}
    offered = {key for key in resources if key.startswith(labels.MIG_PREFIX)}
    for wanted in asked:
        if wanted in offered:
            continue
        size = _size(wanted)
        proposals: list[Proposal] = []
        # The smallest that is large enough first, then the largest that is too small.
        for profile in sorted(offered, key=lambda mig: (_size(mig) < size, abs(_size(mig) - size), mig))[:MOST_AMOUNTS]:

            def edit(pod: Object, wanted: str = wanted, profile: str = profile) -> None:
                for holder in _holders(pod):
                    if wanted in holder:
                        holder[profile] = holder.pop(wanted)

            do = f"Ask for {profile}, which nodes offer, instead of {wanted}"
            proposals += own_change(context, do, edit_of_pods(edit))
        yield ProposalFamily(tuple(proposals))
    if asked:
        whole = any(
            parse_whole_amount(value)
            for value in (_allocatable(node, labels.GPU_RESOURCE) for node in context.nodes.values())
        )

        def edit_whole(pod: Object) -> None:
            for holder in _holders(pod):
                for wanted in asked:
                    if wanted in holder:
                        holder[labels.GPU_RESOURCE] = holder.pop(wanted)

        if whole:
            yield ProposalFamily.of(
                own_change(context, f"Ask for whole GPUs instead of {asked[0]}", edit_of_pods(edit_whole))
            )


def parse_whole_amount(value: Any) -> int:
    return parse_count(str(value))


def _lower(
    context: QuestionContext, key: str, what: str, read: Any, write: Any, amounts: set[int], least: int = 1
) -> Iterator[ProposalFamily]:
    """Request one of ``amounts`` for each pod, the largest that is less than now first. ``least``: for its containers."""
    pods = _pods(context)
    asked = max((pod_amounts(pod["spec"]).get(key, 0) for pod in pods), default=0)
    containers, beside = (max((count(pod, key) for pod in pods), default=0) for count in (_of_containers, _beside))
    also = f", beside the {write(beside)} of its sidecars and its overhead" if beside else ""

    def words(obj: Object) -> str:
        left = max((_of_containers(pod, key) for _, pod in pod_templates(obj)), default=0)
        unit = "GPU" if what == "GPUs" and left == 1 else what
        return f"Ask for {write(left)} {unit} a pod (now {write(containers)}{also})"

    lower = [amount for amount in sorted(amounts, reverse=True) if beside + least <= amount < asked][:MOST_AMOUNTS]
    edits = [edit_of_pods(_asking(key, read, write, amount)) for amount in lower]
    yield ProposalFamily.of(proposal for edit in edits for proposal in own_change(context, words, edit))


def _of_containers(pod: Object, key: str) -> int:
    return sum_of_containers(_containers(pod)).get(key, 0)


def _beside(pod: Object, key: str) -> int:
    """What a pod requests for sidecars and overhead."""
    spec = pod["spec"]
    sidecars = [
        container for container in spec.get("initContainers") or () if container.get("restartPolicy") == "Always"
    ]
    return pod_amounts({"initContainers": sidecars, "overhead": spec.get("overhead")}).get(key, 0)


def _asking(key: str, read: Any, write: Any, amount: int) -> Edit:
    """An edit that lowers the largest container, and init containers, so that the whole pod requests no more than ``amount``."""

    def edit(pod: Object) -> None:
        most, containers = amount - _beside(pod, key), list(_containers(pod))
        amounts = [read(_asked(container, key)) for container in containers]
        if (over := sum(amounts) - most) > 0:
            # The container with the largest request can best do with less.
            largest = max(range(len(amounts)), key=lambda index: amounts[index])
            _set(containers[largest], max(0, amounts[largest] - over))
        for init_container in pod["spec"].get("initContainers") or ():
            # Init containers run one after the other, before the containers and beside sidecars.
            if init_container.get("restartPolicy") != "Always" and read(_asked(init_container, key)) > most:
                _set(init_container, most)

    def _set(container: Object, left: int) -> None:
        resources = container.setdefault("resources", {})
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        amount = left if is_extended(key) else write(left)
        # Requests and limits of extended resources must be equal.
        if is_extended(key) or (key in limits and read(limits[key]) < left):
            resources["limits"] = {**limits, key: amount}
        # A limit without a request is the request too.
        if key in requests or not is_extended(key):
            resources["requests"] = {**requests, key: amount}

    return edit


def _pods(context: QuestionContext) -> list[Object]:
    rows = [context.pods[row.name] for row in context.waiting if row.name in context.pods]
    return rows or ([context.pod] if context.pod is not None else [])


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


def _offered(context: QuestionContext, key: str, read: Any) -> set[int]:
    return {read(_allocatable(node, key)) for node in context.nodes.values()}


def _free(context: QuestionContext, row: int) -> set[int]:
    """What each node has free of CPU or memory (a row of the engine's table of nodes)."""
    return {int(free) for free in context.state.relaxed_cycles.working.table.idle[row]}


def _note(obj: Object, key: str) -> str:
    annotations = ((pod.get("metadata") or {}).get("annotations") or {} for _, pod in pod_templates(obj))
    return next((str(notes[key]) for notes in annotations if key in notes), "")


def _noted(key: str, value: str) -> Edit:
    """An edit that sets an annotation on each pod and template, where scheduling reads it."""

    def edit(obj: Object) -> None:
        def note(pod: Object) -> None:
            metadata = pod.setdefault("metadata", {})
            metadata["annotations"] = {**(metadata.get("annotations") or {}), key: value}

        edit_of_pods(note)(obj)

    return edit


def _size(resource: str) -> int:
    match = _PROFILE.fullmatch(resource.removeprefix(labels.MIG_PREFIX))
    return int(match[2]) if match is not None else 0


_COUNTS = ("replicas", "parallelism", "size", "numOfHosts")
_CAPPED = ("completions", "minReplicas", "minAvailable", "minMember")
_NUMBERED = re.compile(r"(.*?)(\d*)")


def add_missing_pods(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Create the missing pods of a gang of single pods, as copies of an existing one."""
    made: list[Object] = []
    for group in context.groups:
        space, name = group["metadata"].get("namespace", ""), group["metadata"]["name"]
        members = [
            row for row in context.picture.by_group.get(f"{space}/{name}", []) if row.phase in ("Pending", "Running")
        ]
        lacking = min_member(group) - len(members)
        # With subgroups it is not known which one lacks the pod.
        if lacking > 0 and members and not spec_of(group).get("subGroups"):
            sibling = as_manifest(context.pods[members[-1].name])
            made += _like(sibling, [row.name.partition("/")[2] for row in members], lacking)
    if made:
        names = some([pod["metadata"]["name"] for pod in made])
        yield ProposalFamily(
            (
                Proposal(
                    f"Make the {count(len(made), 'pod')} that the gang lacks: {names}",
                    (apply_change(*made),),
                    Disturbance.MADE,
                ),
            )
        )


def _like(sibling: Object, names: list[str], number: int) -> Iterator[Object]:
    match = _NUMBERED.fullmatch(names[-1])
    stem = match[1] if match is not None and match[2] else f"{names[-1]}-"
    taken, at = set(names), 0
    while number:
        if (name := f"{stem}{at}") not in taken:
            number -= 1
            yield {**sibling, "metadata": {**sibling["metadata"], "name": name}}
        at += 1


def grow_to_minimum(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Raise a Job's parallelism to the minimum of its gang."""
    for work in context.works:
        least = max((min_member(group) for group in context.podgroups), default=0)
        if kind_key(work) != "Job" or least <= (wanted_pods(work) or 0):
            continue

        def edit(obj: Object, least: int = least) -> None:
            obj["spec"]["parallelism"] = least
            if obj["spec"].get("completions") is not None:
                obj["spec"]["completions"] = max(least, int(obj["spec"]["completions"]))

        def words(obj: Object) -> str:
            return f"Raise its parallelism to {field_of(obj, 'spec.parallelism')}, as many as must start together"

        yield ProposalFamily.of(own_change(context, words, edit))


def lower_minimum(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Lower the minimum of a gang to the number of its pods."""
    for group in context.podgroups:
        space, name = group["metadata"].get("namespace", ""), group["metadata"]["name"]
        rows = context.picture.by_group.get(f"{space}/{name}", [])
        existing = sum(row.phase in ("Pending", "Running") for row in rows)
        if not 0 < existing < min_member(group) or spec_of(group).get("subGroups"):
            continue

        def edit(obj: Object, existing: int = existing) -> None:
            notes = obj["metadata"].get("annotations") or {}
            if labels.BATCH_MIN_MEMBER in notes:
                notes[labels.BATCH_MIN_MEMBER] = str(existing)

        def words(obj: Object, before: int = min_member(group)) -> str:
            least = (obj["metadata"].get("annotations") or {}).get(labels.BATCH_MIN_MEMBER) or min_member(obj)
            return f"Lower the minimum of the gang from {before} to {least}, as many as there are"

        yield ProposalFamily.of(own_change(context, words, edit, spec_patch(minMember=existing)))


def shrink_gang(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Make a gang smaller, if no pod of it runs: the largest size that works."""
    # Running pods would have to stop.
    if context.state.running or len(context.works) != 1:
        return
    work = context.works[0]
    field = _largest_count(as_manifest(work))
    if field is None:
        return
    path, now = field
    proposals = []
    # From the largest down, so that bisection finds the largest that works.
    for number in range(now - 1, 0, -1):
        changes = replace_changes(work, _counted(path, now, number))
        if changes is not None:
            proposals.append(
                Proposal(lambda after: _smaller(context, work, path, after.of(work)), changes, Disturbance.REPLACED)
            )
    yield ProposalFamily(tuple(proposals), grows=True)


def _smaller(context: QuestionContext, before: Object, path: tuple[str, ...], after: Object) -> str:
    left, now = _at(after, path), _at(before, path)
    what = (
        f"Make it a gang of {count(left, 'pod')}" if kind_key(before) == "Job" else f"Lower {'.'.join(path)} to {left}"
    )
    fits = _largest_that_fits(context, left, now)
    # The step lets it run at once; a larger one would only let it wait as other work does.
    more = f", the most that runs now; up to {fits} fit without other work" if fits > left else ""
    return f"{what} (now {now}), with its minimum to match{more}"


def _largest_that_fits(context: QuestionContext, runs: int, now: int) -> int:
    """The largest count below ``now`` with which the gang could run without other work; ``runs`` can. The engine decides it by bisection, as
    a smaller gang fits wherever a larger one does."""
    pods = context.state.waiting
    tasks = {context.pods[row.name]["metadata"]["uid"] for row in pods if row.name in context.pods}
    sets: Counter[tuple[str, str]] = Counter(
        (task.podgroup, task.subgroup) for task in context.state.moment.snapshot.tasks if task.uid in tasks
    )
    # The count has to be that of one pod set, the largest.
    groups = {group for group, _ in sets}
    if len(groups) != 1 or max(sets.values()) != now:
        return runs
    relaxed_cycles = context.state.relaxed_cycles.about(*groups)
    low, high = runs, now - 1
    while low < high:
        middle = (low + high + 1) // 2
        if relaxed_cycles(OthersGone(), GangLowered(middle)).whole:
            low = middle
        else:
            high = middle - 1
    return low


def _at(obj: Object, path: tuple[str, ...]) -> Any:
    holder: Any = obj
    for step in path:
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
    return holder


def _largest_count(obj: Object) -> tuple[tuple[str, ...], int] | None:
    """The path and number of the largest count of pods in a manifest, outside of pod templates."""
    counts: list[tuple[int, tuple[str, ...]]] = []

    def collect(holder: Any, path: tuple[str, ...]) -> None:
        if isinstance(holder, list):
            for index, entry in enumerate(holder):
                collect(entry, (*path, str(index)))
        elif isinstance(holder, dict) and "containers" not in holder:
            for key, value in holder.items():
                if key in _COUNTS and isinstance(value, int) and not isinstance(value, bool) and value > 1:
                    counts.append((value, (*path, key)))
                elif key != "metadata":
                    collect(value, (*path, key))

    collect(obj.get("spec"), ("spec",))
    if not counts:
        return None
    number, path = min(counts, key=lambda counted: (-counted[0], counted[1]))
    return path, number


def _counted(path: tuple[str, ...], now: int, number: int) -> Edit:
    """An edit that sets a count, and lowers completions, minimums and KAI's annotation that would exceed it."""

    def edit(obj: Object) -> None:
        holder = _at(obj, path[:-1])
        holder[path[-1]] = number
        for cap in _CAPPED:
            if isinstance(holder.get(cap), int) and holder[cap] > number:
                holder[cap] = number
        notes = obj["metadata"].get("annotations") or {}
        if parse_count(notes.get(labels.BATCH_MIN_MEMBER)) > number:
            notes[labels.BATCH_MIN_MEMBER] = str(number)
        policy = field_of(obj, "spec.runPolicy.schedulingPolicy")
        if isinstance(policy, dict) and isinstance(policy.get("minAvailable"), int):
            # It counts pods of all roles, so it falls by as many as this role loses.
            policy["minAvailable"] = max(1, policy["minAvailable"] - (now - number))

    return edit


def scale_up_from_zero(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Scale a workload up from 0."""
    for work in context.works:
        field = next((name for name in ("replicas", "parallelism") if field_of(work, f"spec.{name}") == 0), None)
        if field is not None:
            change = patch_change(work, {"spec": {field: 1}})

            def words(after: ObjectsAfterChanges, work: Object = work, field: str = field) -> str:
                return f"Scale {kind_and_name(work)} up to {count(after.of(work)['spec'][field], 'pod')}"

            yield ProposalFamily((Proposal(words, (change,), Disturbance.OWN),))
