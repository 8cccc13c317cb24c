"""Screen readers and black-and-white prints give the recorded facts of the picture."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kailab.engine.decisions import Decisions
from kailab.engine.snapshot.records import GPU, PodGroup, Status, Task
from kailab.evidence import cycles, store
from kailab.evidence.entries import PodEvicted, PodPromised
from kailab.report import page as pages
from tests.browser import WITH_A_BROWSER, Tab
from tools.browser import LONG

pytestmark = WITH_A_BROWSER

TEST = "fair/test_reclaim"
Lists = dict[str, list[list[str]]]
"""Rows of cells by the name of their list."""

PRINTED = (Path(__file__).parent / "printed.js").read_text()
"""Of what is laid out: the cells of each list, as far as ink shows them whole."""

_UID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_STRETCH = re.compile(
    r"^(runs in part|\w+) from cycle (\d+), [\d.]+ s(?: until (?:cycle (\d+)|after step \d+), [\d.]+ s)?$"
)


class Recorded:
    """What stood at one moment of the evidence, and what was decided there."""

    def __init__(self, number: int, tasks: dict[str, Task], groups: dict[str, PodGroup], decisions: Decisions) -> None:
        self.number = number
        self.tasks = dict(tasks)
        self.groups = dict(groups)
        self.decisions = decisions

    def group(self, uid: str) -> str:
        """As the page calls it: a UID at the end of a name is for nobody to read."""
        found = self.groups[uid]
        return _UID.sub("", f"{found.namespace}/{found.name}")

    def standing(self) -> dict[str, str]:
        """How each PodGroup stands, in the words of its bar."""
        by_group: dict[str, set[str]] = {}
        for task in self.tasks.values():
            by_group.setdefault(self.group(task.podgroup), set()).add(_WORDS[task.status])
        return {name: _of(kinds) for name, kinds in by_group.items()}


_WORDS = {
    Status.PENDING: "waits",
    Status.GATED: "waits",
    Status.PIPELINED: "promised",
    Status.BINDING: "runs",
    Status.BOUND: "runs",
    Status.RUNNING: "runs",
    Status.RELEASING: "leaves",
}


def _of(kinds: set[str]) -> str:
    if "runs" in kinds:
        return "runs in part" if kinds & {"waits", "promised"} else "runs"
    return next(kind for kind in ("promised", "waits", "leaves") if kind in kinds)


@pytest.fixture(scope="module")
def recorded(run: Path) -> list[Recorded]:
    _, log = cycles.read_cycles_file(run / TEST / "lab")
    tasks: dict[str, Task] = {}
    groups: dict[str, PodGroup] = {}
    found = []
    for cycle, _, decisions in cycles.whole_cycles(log):
        for uid in cycle.changes.removed.tasks:
            tasks.pop(uid, None)
        tasks |= {task.uid: task for task in cycle.changes.set.tasks}
        groups |= {group.uid: group for group in cycle.changes.set.podgroups}
        found.append(Recorded(cycle.number, tasks, groups, decisions))
    return found


@pytest.fixture(scope="module")
def moment(recorded: list[Recorded]) -> int:
    """The one with evictions."""
    [found] = [at for at, one in enumerate(recorded) if one.decisions.evictions]
    return found


@pytest.fixture(scope="module")
def written(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page.html"
    pages.write_page([run], file)
    return file


@pytest.fixture(scope="module")
def tab(browser: Any, run: Path, moment: int, written: Path) -> Iterator[Tab]:
    place = [test.name for test in store.read_run(run)[1]].index(TEST)
    one = browser.new_page(viewport={"width": 1000, "height": 900}, color_scheme="dark")
    one.set_default_timeout(LONG)
    one.goto(f"file://{written}#/0/{place}/0/{moment}", timeout=LONG)
    one.wait_for_selector("#app[data-ready]")
    yield one
    one.close()


def _heard(tab: Tab) -> Lists:
    """The tables of the accessibility tree, as the browser hands it to a screen reader. Lists are as long as needed to have all
    rows in view: a reader scrolls them."""
    tab.emulate_media(media="screen")
    tab.focus("#fleet .as-table summary")
    tab.keyboard.press("Enter")
    tab.evaluate(
        "() => document.querySelectorAll('.rows').forEach((each) => { each.rows.most = 1e5; each.rows.redraw(); })"
    )
    nodes = tab.context.new_cdp_session(tab).send("Accessibility.getFullAXTree")["nodes"]
    by_id = {node["nodeId"]: node for node in nodes}

    def below(node: dict[str, Any], role: str) -> Iterator[dict[str, Any]]:
        for child in (by_id[one] for one in node.get("childIds", [])):
            if child.get("role", {}).get("value") == role:
                yield child
            else:
                yield from below(child, role)

    def said(node: dict[str, Any]) -> str:
        return " ".join(text["name"]["value"] for text in below(node, "StaticText"))

    tables = [node for node in nodes if node.get("role", {}).get("value") == "table"]
    return {
        table["name"]["value"]: [[said(cell) for cell in below(row, "cell")] for row in below(table, "row")]
        for table in tables
    }


def _printed(tab: Tab) -> Lists:
    """What is on paper when the browser prints: the page is asked in the middle of it."""
    tab.emulate_media(media="print")
    tab.evaluate(
        f"() => addEventListener('beforeprint', () => {{ window.onPaper = ({PRINTED})(); }}, {{ once: true }})"
    )
    assert tab.pdf().startswith(b"%PDF")
    found: Lists = tab.evaluate("() => window.onPaper")
    return found


@pytest.fixture(scope="module", params=[_printed, _heard], ids=["printed", "heard"])
def told(request: pytest.FixtureRequest, tab: Tab) -> Lists:
    found: Lists = request.param(tab)
    return {name: [cells for cells in rows if cells] for name, rows in found.items()}


def _gpus(milli: float) -> str:
    return "unlimited" if milli == -1 else f"{milli / 1000:g}"


def test_each_number_of_each_queue(told: Lists, recorded: list[Recorded], moment: int) -> None:
    expected = {}
    for queue in recorded[moment].decisions.queues:
        gpu = queue.gpu
        amounts = (gpu.quota, gpu.limit, gpu.fair_share, gpu.allocated, gpu.borrowed, gpu.requested)
        expected[queue.name] = [_gpus(value) for value in amounts]
    assert {cells[0].split()[-1]: cells[1:7] for cells in told["Queues"]} == expected


def test_each_workload_that_waits_with_its_reason(told: Lists, recorded: list[Recorded], moment: int) -> None:
    here = recorded[moment]
    expected = {here.group(one.podgroup): (one.queue, str(one.code), one.message) for one in here.decisions.pending}
    assert expected
    assert {cells[0]: tuple(cells[1:4]) for cells in told["Waiting PodGroups"]} == expected


def test_each_eviction_with_whom_it_served(told: Lists, run: Path) -> None:
    evicted = [one for one in store.load_test(run, TEST).decisions("lab") if isinstance(one, PodEvicted)]
    assert len(told["Evictions"]) == len(evicted) > 0
    for cells, one in zip(told["Evictions"], evicted, strict=True):
        victim, action, served, ground, when = (" ".join(cell.split()) for cell in cells)
        assert victim.endswith(f"{one.pod} {one.queue}, on {one.node}")
        assert action == one.action
        assert served.endswith(f"{_UID.sub('', one.beneficiary)} {one.beneficiary_queue}")
        assert one.ground is not None
        numbers = (one.ground.rule, _gpus(one.ground.bound), _gpus(one.ground.before), _gpus(one.ground.after))
        assert all(number in ground for number in numbers)
        assert when.startswith(f"cycle {one.cycle},")


def test_who_has_each_gpu_and_who_gets_it(told: Lists, recorded: list[Recorded], moment: int, run: Path) -> None:
    here = recorded[moment]
    held: dict[str, dict[str, int]] = {}
    for task in here.tasks.values():
        if task.node and _WORDS[task.status] in ("runs", "leaves"):
            queues = held.setdefault(task.node, {})
            queue = here.groups[task.podgroup].queue
            queues[queue] = queues.get(queue, 0) + task.shape.gpu.devices
    assert {cells[0]: _amounts(cells[4]) for cells in told["Nodes"]} == held
    decided = store.load_test(run, TEST).decisions("lab")
    for kind, word in ((PodEvicted, "evicted"), (PodPromised, "promised")):
        expected: dict[str, int] = {}
        for one in decided:
            if isinstance(one, kind) and one.cycle == here.number:
                assert one.amounts is None or one.amounts.gpu == GPU
                expected[one.node] = expected.get(one.node, 0) + 1
        found = {
            cells[0]: dict(part.split(": ") for part in cells[6].split("; ") if ": " in part) for cells in told["Nodes"]
        }
        assert {node: sum(_amounts(parts[word]).values()) for node, parts in found.items() if word in parts} == expected


def _amounts(text: str) -> dict[str, int]:
    """Of "team-a 4, team-b 2"."""
    return {queue: int(amount) for queue, amount in (part.split() for part in text.split(", "))}


def test_the_bar_of_each_gang_and_for_whom_it_lost_pods(told: Lists, recorded: list[Recorded], run: Path) -> None:
    bars = {cells[0]: cells[2] for cells in told["PodGroups over time"]}
    assert len(bars) == len(told["PodGroups over time"])
    shown: list[dict[str, str]] = [{} for _ in recorded]
    lost = set()
    for name, text in bars.items():
        # Before the words stand the letters in the bar.
        for part in re.split(
            r"; ", text[re.search(r"(waits|promised|runs|leaves)( in part)? from|\d+ pods? ", text).start() :]
        ):  # type: ignore[union-attr]
            if stretch := _STRETCH.match(part):
                begins, ends = int(stretch[2]), int(stretch[3] or len(recorded) + 1)
                for at, one in enumerate(recorded):
                    if begins <= one.number < ends:
                        shown[at][name] = stretch[1]
            elif taken := re.match(r"(\d+) pods? evicted in cycle (\d+), [\d.]+ s, for (\S+)$", part):
                lost.add((name, int(taken[1]), int(taken[2]), taken[3]))
            else:
                assert re.match(r"\d+ pods? of \S+ evicted for it in cycle", part), part
    assert shown == [one.standing() for one in recorded]
    counted: dict[tuple[str, int, str], int] = {}
    for one in store.load_test(run, TEST).decisions("lab"):
        if isinstance(one, PodEvicted):
            key = (_UID.sub("", one.podgroup), one.cycle, _UID.sub("", one.beneficiary))
            counted[key] = counted.get(key, 0) + 1
    assert lost == {(name, pods, cycle, served) for (name, cycle, served), pods in counted.items()}


def test_how_much_was_decided_in_each_moment(told: Lists, recorded: list[Recorded]) -> None:
    found = [[int(cell) for cell in cells[1:4]] for cells in told["Moments"]]
    decided = [one.decisions for one in recorded]
    assert found[: len(recorded)] == [[len(one.binds), len(one.pipelines), len(one.evictions)] for one in decided]


def test_a_print_has_no_colour(tab: Tab) -> None:
    """So nothing of it is told by colour alone. Asked for on a dark page."""
    from PIL import Image

    tab.emulate_media(media="print")
    tab.evaluate("() => { dispatchEvent(new Event('beforeprint')); }")
    for part in (".timeline", "#fleet", "#queues", "#gangs .legend", "#gangs .body .row:first-child"):
        with Image.open(io.BytesIO(tab.locator(part).screenshot(timeout=LONG))).convert("RGB") as picture:
            pixels = {colour for _, colour in picture.getcolors(picture.width * picture.height) or []}
        assert len(pixels) > 1, part
        assert {pixel for pixel in pixels if max(pixel) - min(pixel) > 24} == set(), part
    tab.evaluate("() => { dispatchEvent(new Event('afterprint')); }")
    tab.emulate_media(media="screen")
    assert tab.locator("#fleet .as-table[data-paper]").count() == 0


@pytest.mark.parametrize("width", [800, 1200, 1440])
def test_on_paper_nothing_is_beyond_its_edge(browser: Any, written: Path, moment: int, width: int) -> None:
    """A4 upright with a browser's margins, printed from a screen of that width."""
    for address in ("#/", f"#/0/0/0/{moment}", f"#/0/1/0/{moment}"):
        tab = browser.new_page(viewport={"width": width, "height": 900})
        tab.goto(f"file://{written}{address}", timeout=LONG)
        tab.wait_for_selector("#app[data-ready]", timeout=LONG)
        tab.evaluate("dispatchEvent(new Event('beforeprint'))")
        tab.emulate_media(media="print")
        tab.set_viewport_size({"width": 718, "height": 1000})
        beyond, cells = tab.evaluate(BEYOND), tab.locator("[role=cell]").count()
        tab.close()
        assert beyond == []
        assert cells > 0


BEYOND = """() => [...document.querySelectorAll("body *")].filter((one) => {
  const box = one.getBoundingClientRect();
  return box.width && box.right > innerWidth + 1;
}).map((one) => `${one.tagName} ${one.textContent.slice(0, 40)}`)"""
