"""``trace``: what a cluster does, recorded as a trace that ``kailab replay`` reads."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import options, replay_options, terminal

if TYPE_CHECKING:
    from kailab.cluster.kubernetes import KubernetesCluster
    from kailab.replay.trace_recorder import RecordedTrace, TraceRecorder

PAUSE_SECONDS = 1.0
WRITE_SECONDS = 30.0
"""So often is the file written anew, so that whoever is killed loses little."""


@click.group()
def group() -> None:
    """Record the jobs of a cluster as a trace, for `kailab replay`."""


@group.command()
@click.argument("file", type=options.PATH)
@click.option("--kubeconfig", type=options.PATH, help="Of the cluster of a kubeconfig, not of the lab that is up.")
@click.option("--context", help="Of this context of the kubeconfig, if not the current one.")
@click.option("--for", "duration", default="", help="End after so long, in real time: 10m, 8h. Else at Ctrl-C.")
@click.option("--once", is_flag=True, help="Look once, at the pods that are there, and end.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@options.state
def record(
    file: Path, kubeconfig: Path | None, context: str | None, duration: str, once: bool, force: bool, state: Path
) -> None:
    """Watch the pods of the lab that is up, or of the cluster of a kubeconfig, and write each job that has ended to FILE: when it came, how long it ran,
    its GPUs, share, models, queue and user. Ends at Ctrl-C, after --for, or when the lab is down. Nothing in the cluster is changed."""
    from kailab.errors import InputError, Where
    from kailab.replay import tables
    from kailab.replay.trace_recorder import TraceRecorder

    if once and duration:
        raise click.UsageError("--once and --for can't be used together")
    if file.exists() and not force:
        raise InputError("is there already; give another name, or --force", Where(file=str(file)))
    if file.suffix != ".csv":
        raise InputError(f"{file}: expected a file that ends in .csv")
    tables.check_target(file)
    seconds = 0 if once else replay_options.whole_seconds("--for", duration)
    recorder = TraceRecorder()
    writing = _Writing(file, recorder, None if seconds is None else time.monotonic() + seconds)
    try:
        if kubeconfig is not None or context is not None or not state.exists():
            _follow(_cluster(kubeconfig, context), recorder, writing)
        else:
            _look_at_lab(state, recorder, writing)
    except KeyboardInterrupt:
        pass
    found = writing.write()
    terminal.say(f"{file}: {len(found.rows)} jobs have ended; {found.unfinished} wait or run still, and are not in it")
    for why, count in sorted(found.left_out.items()):
        terminal.warn(f"left out: {count} jobs: {why}")
    if found.rows:
        terminal.notice(f"Replay it: kailab replay {file} --fleet FLEET")


class _Writing:
    def __init__(self, file: Path, recorder: TraceRecorder, until: float | None) -> None:
        self._file, self._recorder, self._until = file, recorder, until
        self._next = time.monotonic() + WRITE_SECONDS
        self._told = False

    def over(self) -> bool:
        """Whether to end; now and then the file is written, too."""
        now = time.monotonic()
        if not self._told and (self._until is None or now < self._until):
            terminal.notice("Recording; Ctrl-C ends it")
            self._told = True
        if now >= self._next:
            self.write()
            self._next = now + WRITE_SECONDS
        return self._until is not None and now >= self._until

    def write(self) -> RecordedTrace:
        """All jobs that have ended so far, whole or not at all."""
        from kailab.replay import tables
        from kailab.replay.trace_recorder import COLUMNS

        found = self._recorder.recorded()
        part = self._file.with_name(f".{self._file.stem}.part.csv")
        tables.write(part, COLUMNS, found.rows)
        part.replace(self._file)
        return found


def _cluster(kubeconfig: Path | None, context: str | None) -> KubernetesCluster:
    from kailab.cluster.kubernetes import Connection, KubernetesCluster
    from kailab.lab.venues.kubeconfig import kubeconfig_of

    return KubernetesCluster(Connection.from_kubeconfig(kubeconfig_of(kubeconfig), context))


def _follow(cluster: KubernetesCluster, recorder: TraceRecorder, writing: _Writing) -> None:
    watch = cluster.watch(("Pod",))
    try:
        while True:
            recorder.follow(watch.poll(), cluster.now())
            if writing.over():
                return
            cluster.wait(PAUSE_SECONDS)
    finally:
        watch.close()
        cluster.close()


def _look_at_lab(state: Path, recorder: TraceRecorder, writing: _Writing) -> None:
    """Look by look: a lab in a file changes when a command acts on it; one on an API server goes on by itself."""
    from kailab.lab import lab_files

    stamp = None
    while (now := lab_files.stamp(state)) is not None:
        with lab_files.open_read_only(state, again=True) as lab:
            live = lab.backend != "embedded"
            if live or now != stamp:
                recorder.look(lab.cluster.list("Pod"), lab.now)
        stamp = now
        if writing.over():
            return
        time.sleep(PAUSE_SECONDS)
    terminal.notice(f"{state}: the lab is down")
