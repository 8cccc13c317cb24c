"""`kailab top`: the lab in a terminal, as it changes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kailab.cli.top import View
from kailab.cli.top_screen import SECTIONS, OverviewScreen, divide_lines, lines_of_section, read_overview
from kailab.lab import Lab
from tests.cli.conftest import MANIFESTS

PATIENCE_SECONDS = 240
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A program in a terminal of its own, and all that it wrote there so far."""

    def __init__(self, *arguments: str, rows: int = 30, columns: int = 100) -> None:
        command = [sys.executable, "-m", "kailab", *arguments]
        self.pid, self.place = pty.fork()
        if not self.pid:
            os.environ.update(TERM="xterm-256color", COLUMNS=str(columns), LINES=str(rows))
            os.execv(command[0], command)
        fcntl.ioctl(self.place, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.text = ""

    def until(self, words: str) -> str:
        """What was written up to these words, from the last time on."""
        end = time.monotonic() + PATIENCE_SECONDS
        while words not in self.text:
            assert time.monotonic() < end, self.text
            ready, _, _ = select.select([self.place], [], [], 1.0)
            if ready:
                self.text += ESCAPES.sub("", os.read(self.place, 65536).decode(errors="replace"))
        found, _, self.text = self.text.partition(words)
        return found

    def press(self, keys: str) -> None:
        os.write(self.place, keys.encode())

    def ended(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        os.close(self.place)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab.open("lesson") as found:
        found.apply(MANIFESTS)
        found.settle()
        yield found


def drawn(lab: Lab, width: int = 120, **how: object) -> list[str]:
    console = Console(width=width, highlight=False, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as written:
        console.print(OverviewScreen(read_overview(lab), **how))  # type: ignore[arg-type]
    return written.get().splitlines()


def test_it_shows_what_the_lab_says(lab: Lab) -> None:
    lines = drawn(lab)
    assert "16 of 32 GPUs in use" in lines[0]
    cells = [cell for line in lines if line.startswith("rack-") for cell in re.findall(r"(?<= )[A.]{4,}(?= |$)", line)]
    assert sum(cell.count("A") for cell in cells) == 16
    assert sum(len(cell) for cell in cells) == 32
    queue = next(line.split() for line in lines if line.startswith("team-a "))
    shares = lab.picture().shares["team-a"]
    assert [float(each) for each in queue[1:6]] == [
        each / 1000 for each in (shares.quota, shares.limit, shares.fair_share or 0, shares.allocated, shares.borrowed)
    ]
    [waiting] = lab.picture().waiting()
    assert any(waiting.reason in line and "team-a" in line for line in lines)


def test_racks_are_in_natural_order(lab: Lab) -> None:
    overview = read_overview(lab)
    [node, *_] = overview.nodes
    nodes = [node._replace(name=f"n{number}", rack=f"r{number}") for number in (10, 2, 1, 9)]
    screen = OverviewScreen(replace(overview, nodes=nodes))
    console = Console(width=120, force_terminal=False, color_system=None)
    with console.capture() as written:
        console.print(screen)
    assert re.findall(r"^r(\d+):", written.get(), re.MULTILINE) == ["1", "2", "9", "10"]


def test_an_event_of_an_object_that_was_never_made_is_shown(lab: Lab) -> None:
    """A kube-apiserver reports so of a ServiceCIDR that it could not create yet."""
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "kubernetes.1", "namespace": "default"},
        "involvedObject": {"kind": "ServiceCIDR"},
        "reason": "KubernetesDefaultServiceCIDRError",
        "message": "The default ServiceCIDR can not be created",
        "lastTimestamp": "2026-01-01T12:00:00Z",
    }
    lab.cluster.create(event)
    lab.cluster.create({**event, "metadata": {"name": "kubernetes.2", "namespace": "default"}, "involvedObject": {}})
    rows = [row for row in read_overview(lab).events if row[1] == event["reason"]]
    assert {row[2] for row in rows} == {"servicecidr/", "/"}


def test_closed_nodes_and_shared_gpus_are_visible_without_colour(lab: Lab) -> None:
    lab.delete("job", "train")
    lab.patch("Node", "h100-0", {"spec": {"unschedulable": True}})
    lab.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "half",
                "labels": {"kai.scheduler/queue": "team-a"},
                "annotations": {"gpu-fraction": "0.5"},
            },
            "spec": {
                "schedulerName": "kai-scheduler",
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "busybox"}],
            },
        }
    )
    lab.settle()
    text = "\n".join(drawn(lab))
    assert re.search(r"h100-0 \.{8} \(.*unschedulable", text)
    assert re.search(r" a\.+", text)


@given(room=st.integers(0, 200), wanted=st.lists(st.integers(1, 100), min_size=1, max_size=6))
def test_sections_share_the_lines_there_are(room: int, wanted: list[int]) -> None:
    given_lines = divide_lines(room, wanted)
    assert all(0 <= got <= want for got, want in zip(given_lines, wanted, strict=True))
    assert sum(given_lines) == min(room, sum(wanted))


@pytest.mark.parametrize("height", [1, 4, 10, 24, 60])
@pytest.mark.parametrize("section", [None, *range(len(SECTIONS))])
def test_it_fits_the_terminal(lab: Lab, height: int, section: int | None) -> None:
    for width in (20, 80):
        lines = drawn(lab, width, height=height, section=section)
        assert len(lines) <= max(2, height)
        assert max(map(len, lines)) <= width


def test_eighty_columns_show_the_borrowing_queue() -> None:
    reclaim = Path(__file__).parents[2] / "exercises" / "reclaim" / "manifests"
    with Lab.open("lesson") as lab:
        lab.apply(reclaim / "queues.yaml", reclaim / "borrower.yaml")
        lab.settle()
        lines = drawn(lab, 80, height=40)
    assert any("team-a" in line and line.endswith("borrowing") for line in lines)


def test_it_follows_the_lab_until_q(state: Path, home: Path) -> None:
    run = [sys.executable, "-m", "kailab"]
    subprocess.run([*run, "up", "--state", str(state)], check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    terminal = Terminal("top", "--state", str(state))
    terminal.until("0 of 32 GPUs in use")
    terminal.until("No queues.")
    (home / "work.yaml").write_text(MANIFESTS)
    apply = [*run, "apply", "-f", str(home / "work.yaml"), "--state", str(state)]
    subprocess.run(apply, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    terminal.until("16 of 32 GPUs in use")
    assert "Queues" in terminal.until("q quit")
    terminal.press("4")
    assert "Queues" not in terminal.until("q quit")
    terminal.press("q")
    assert terminal.ended() == 0


def test_a_selected_row_is_explained_changed_and_deleted(state: Path, home: Path) -> None:
    """Each key shows the command that it stands for; a change is previewed, and made only after a yes."""
    run = [sys.executable, "-m", "kailab"]
    (home / "work.yaml").write_text(MANIFESTS)
    for arguments in (("up",), ("apply", "-f", str(home / "work.yaml"))):
        done = [*run, *arguments, "--state", str(state)]
        subprocess.run(done, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    terminal = Terminal("top", "--state", str(state), columns=120)
    terminal.until("0 all")
    terminal.press("5")
    # Waiting work comes first. A Job has no replicas to set.
    assert "scale" not in terminal.until("d delete")
    terminal.press("e")
    terminal.until("$ kailab explain job ")
    terminal.until("Enter goes back")
    terminal.press("\r")
    terminal.until("d delete")
    terminal.press("d")
    terminal.until("$ kailab whatif --delete Job/")
    terminal.until("Carry it out (kailab delete Job/")
    before = state.read_bytes()
    terminal.press("n\r")
    terminal.until("Enter goes back")
    assert state.read_bytes() == before
    terminal.press("\r")
    terminal.until("d delete")
    terminal.press("d")
    terminal.until("Carry it out (kailab delete Job/")
    terminal.press("y\r")
    terminal.until("deleted")
    terminal.until("Enter goes back")
    terminal.press("\r")
    terminal.until("0 all")
    terminal.press("6")
    terminal.until("c cordon")
    # The selection stays with its node, whatever is done to it.
    terminal.press("j")
    for word, answer in (("cordon", "cordoned"), ("uncordon", "uncordoned")):
        terminal.until(f"c {word}")
        terminal.press("c")
        terminal.until(f"Carry it out (kailab {word} a100-1)")
        terminal.press("y\r")
        terminal.until(answer)
        terminal.until("Enter goes back")
        terminal.press("\r")
    terminal.until("c cordon")
    terminal.press("q")
    assert terminal.ended() == 0


def test_the_selection_stays_with_its_object_and_in_view(lab: Lab) -> None:
    overview = read_overview(lab)
    nodes = SECTIONS.index("Nodes")
    names = [subject.name for subject in overview.subjects(nodes)]
    view = View().after(str(nodes + 1)).fitted(overview, 80, 7)
    assert view.subject is not None
    assert view.subject.name == names[0]
    for _ in range(20):
        view = view.after("j").fitted(overview, 80, 7)
        assert view.selected is not None
        assert view.first <= view.selected + 1 < view.first + lines_of_section(7)
    assert (view.selected, view.subject) == (len(names) - 1, overview.subjects(nodes)[-1])
    fewer = replace(overview, node_rows=overview.node_rows[-2:])
    kept = view.fitted(fewer, 80, 7)
    assert (kept.selected, kept.subject) == (1, view.subject)
    gone = view.fitted(replace(overview, node_rows=overview.node_rows[:1]), 80, 7)
    assert gone.subject is not None
    assert gone.subject.name == names[0]
    assert view.fitted(replace(overview, node_rows=()), 80, 7).subject is None


def test_it_ends_with_the_lab(state: Path, home: Path) -> None:
    run = [sys.executable, "-m", "kailab"]
    subprocess.run([*run, "up", "--state", str(state)], check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    terminal = Terminal("top", "--state", str(state))
    terminal.until("0 of 32 GPUs in use")
    subprocess.run([*run, "down", "--state", str(state)], check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    terminal.until("the lab is down")
    assert terminal.ended() == 0


def test_off_a_terminal_it_is_printed_once(kailab, state: Path) -> None:
    assert kailab("up").code == 0
    for arguments in ((), ("--once",)):
        done = kailab("top", *arguments)
        assert (done.code, done.out.count("GPUs in use")) == (0, 1)


def test_without_a_lab_it_says_how_to_begin(kailab) -> None:
    refused = kailab("top")
    assert (refused.code, "kailab up" in refused.err) == (2, True)
