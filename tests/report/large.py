"""The page of a run that nobody has the time to run in a test: a lab of many pods, and many tests, in the form that pages have.

The columns are filled by what fills those of evidence; only what they are told is made up.
"""

from __future__ import annotations

from pathlib import Path

from kailab.engine.decisions import QueueShare, QueueState
from kailab.engine.snapshot.records import GPU
from kailab.report import page as pages
from kailab.report.columns import GroupColumns, NodeColumns, PodColumns, PodState, QueueColumns, UndoLog
from kailab.report.page_data import FORMAT, NONE, LabForm, LabRef, MomentForm, Page, RunForm, TestForm
from kailab.report.racks import NodePlace
from kailab.report.raw import RawTextFiles

QUEUES = 20
GPUS_OF_A_NODE = 8
GANG = 32
MOMENTS = 40


def lab_form(folder: Path, nodes: int, pods: int) -> tuple[LabForm, dict[str, bytes]]:
    """A lab in which a share of the pods comes with each moment, and a tenth of them moves to another node once."""
    raw, holds = RawTextFiles(folder, "made-up/lab", "raw"), UndoLog()
    queues, racks = QueueColumns(holds), NodeColumns(holds)
    told = PodColumns(GroupColumns(queues, holds), racks, holds)
    ref = raw.add("cycles.jsonl", "", [b'{"made": "up"}'])
    for number in range(nodes):
        racks.put(0, f"node-{number:05}", NodePlace(f"rack-{number // 40:03}", "H100"), GPUS_OF_A_NODE * GPU, "", ref)
    held = [0] * QUEUES
    nothing = _share(0, 0)
    for moment in range(MOMENTS):
        for pod in range(moment, pods, MOMENTS):
            _put(told, moment, pod, pod % nodes, ref)
            held[pod // GANG % QUEUES] += GPU
        for pod in range(moment - 1, pods, 10 * MOMENTS) if moment else ():
            _put(told, moment, pod, (pod + 1) % nodes, ref)
        told.groups.end_of(moment)
        for number, amount in enumerate(held):
            name, share = f"team-{number:02}", _share(amount, pods * GPU // QUEUES)
            state = QueueState(name=name, parent="", priority=0, gpu=share, cpu=nothing, memory=nothing)
            queues.put(moment, name, state, ref)
    form = LabForm(name="lab", facts={}, facts_ref=ref)
    form.moments = [MomentForm(kind="cycle", number=one + 1, t=one, time="", ref=ref) for one in range(MOMENTS)]
    form.nodes, form.queues, form.pods, form.groups = (
        racks.form,
        queues.form,
        told.form({}, lambda _: NONE),
        told.groups.form,
    )
    form.groups.workload = [""] * len(form.groups.name)
    form.nodes.by = "rack"
    form.raw, chunks = raw.form()
    return form, chunks


def _share(allocated: int, quota: int) -> QueueShare:
    return QueueShare(quota=quota, limit=-1, fair_share=quota, allocated=allocated, requested=allocated)


def _put(told: PodColumns, moment: int, pod: int, node: int, ref: int) -> None:
    gang = pod // GANG
    group = told.groups.put(f"default/gang-{gang:05}", f"team-{gang % QUEUES:02}", GANG, ref)
    told.put(moment, str(pod), f"default/gang-{gang:05}-{pod:05}", group, PodState("runs", f"node-{node:05}", GPU), ref)


def write(file: Path, *, nodes: int, pods: int, tests: int) -> LabForm:
    """The page of a run of so many tests, the first with a lab of so many nodes and pods."""
    form, chunks = lab_form(file.parent, nodes, pods)
    ref = LabRef(
        name="lab", fleet="large", scheduler="kailab", backend="embedded", nodes=nodes, gpus=nodes * GPUS_OF_A_NODE,
        chunk="lab",
    )  # fmt: skip
    told = [
        TestForm(
            name=f"large/test_{number:04}", outcome="passed", message="", sentence=f"The sentence of test {number}.",
            cycles=MOMENTS, decisions=pods, expectations=[], labs=[ref] if number == 0 else [],
        )
        for number in range(tests)
    ]  # fmt: skip
    run = RunForm(run="large", facts=None, outcomes={"passed": tests}, problems=[], tests=told)
    page = Page(format=FORMAT, kailab="0", kind="run", title="large", runs=[run])
    file.write_bytes(pages.page_html(page, {"lab": pages.pack_chunk(form), **chunks}))
    return form
