"""``trace``: record the jobs of a cluster as a trace for ``kailab replay``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, replay_options, terminal
from kailab.cli.error_messages import CommandGroup
from kailab.cluster.backends import BACKENDS
from kailab.errors import InputError, Where
from kailab.model.wording import count

if TYPE_CHECKING:
    from kailab.cluster.kubernetes import KubernetesCluster
    from kailab.replay.trace_recorder import RecordedTrace, TraceRecorder

PAUSE_SECONDS = 1.0
WRITE_SECONDS = 30.0
"""Interval between writes of the file, so that a killed recording loses little."""


@click.group(cls=CommandGroup)
def group() -> None:
    """Record the jobs of a cluster as a trace, for `kailab replay`."""


@group.command()
@click.argument("file", type=options.PATH)
@options.path_option("--kubeconfig", help="Record the cluster of a kubeconfig instead of the lab.")
@click.option("--context", help="Context of the kubeconfig instead of the current one.")
@click.option("--for", "duration", default="", help="Duration in real time: 10m, 8h.", show_default="until Ctrl-C")
@options.flag("--once", help="Record the present pods and exit.")
@options.flag("--force", help="Overwrite an existing file.")
@options.state
def record(
    file: Path, kubeconfig: Path | None, context: str | None, duration: str, once: bool, force: bool, state: Path
) -> None:
    """Watch the pods of the lab, or of the cluster of a kubeconfig, and write each ended job to FILE: its submission, run time, GPUs, share,
    models, queue and user. Recording ends at Ctrl-C, after --for, or when the lab is down. Nothing in the cluster is changed."""
    from kailab.replay import tables
    from kailab.replay.trace_recorder import TraceRecorder

    if once and duration:
        raise click.UsageError("--once and --for can't be used together")
    if file.exists() and not force:
        raise InputError("exists already; give another name, or --force to overwrite it", Where(file=str(file)))
    if file.suffix != ".csv":
        raise InputError(f"{file}: expected a file name that ends in .csv")
    tables.check_table_target(file)
    seconds = 0 if once else replay_options.whole_seconds("--for", duration)
    recorder = TraceRecorder()
    writing = _Writing(file, recorder, None if seconds is None else time.monotonic() + seconds)
    try:
        if labfile.is_about_cluster(state, kubeconfig, context):
            _follow(_cluster(kubeconfig, context), recorder, writing)
        else:
            _poll_lab(state, recorder, writing)
    except KeyboardInterrupt:
        pass
    trace = writing.write()
    has, waits = ("has" if len(trace.rows) == 1 else "have"), ("is" if trace.unfinished == 1 else "are")
    terminal.say(
        f"{file}: {count(len(trace.rows), 'job')} {has} ended; {trace.unfinished} {waits} pending or running and left out"
    )
    for why, number in sorted(trace.left_out.items()):
        terminal.warn(f"left out: {count(number, 'job')}: {why}")
    if trace.rows:
        terminal.notice(f"Replay it: kailab replay {file} --fleet FLEET")


class _Writing:
    def __init__(self, file: Path, recorder: TraceRecorder, until: float | None) -> None:
        self._file, self._recorder, self._until = file, recorder, until
        self._next = time.monotonic() + WRITE_SECONDS
        self._announced = False

    def is_over(self) -> bool:
        """Return True if the recording is to end. Also writes the file every ``WRITE_SECONDS``."""
        now = time.monotonic()
        if not self._announced and (self._until is None or now < self._until):
            terminal.notice("Recording; Ctrl-C ends it")
            self._announced = True
        if now >= self._next:
            self.write()
            self._next = now + WRITE_SECONDS
        return self._until is not None and now >= self._until

    def write(self) -> RecordedTrace:
        """Write all ended jobs, atomically."""
        from kailab.replay import tables
        from kailab.replay.trace_recorder import COLUMNS

        trace = self._recorder.recorded()
        part = self._file.with_name(f".{self._file.stem}.part.csv")
        tables.write_table_file(part, COLUMNS, trace.rows)
        part.replace(self._file)
        return trace


def _cluster(kubeconfig: Path | None, context: str | None) -> KubernetesCluster:
    from kailab.cluster.kubernetes import Connection, KubernetesCluster
    from kailab.lab.venues.kubeconfig import kubeconfig_of

    return KubernetesCluster(Connection.from_kubeconfig(kubeconfig_of(kubeconfig), context))


def _follow(cluster: KubernetesCluster, recorder: TraceRecorder, writing: _Writing) -> None:
    watch = cluster.watch(("Pod",))
    try:
        while True:
            recorder.follow(watch.poll(), cluster.now())
            if writing.is_over():
                return
            cluster.wait(PAUSE_SECONDS)
    finally:
        watch.close()
        cluster.close()


def _poll_lab(state: Path, recorder: TraceRecorder, writing: _Writing) -> None:
    """Read an embedded lab whenever its file changes, and a lab on an API server at every poll."""
    from kailab.lab import lab_files

    stamp = None
    while (now := lab_files.stamp(state)) is not None:
        with lab_files.open_read_only(state, again=True) as lab:
            live = BACKENDS[lab.backend].api_server
            if live or now != stamp:
                recorder.observe(lab.cluster.list("Pod"), lab.now)
        stamp = now
        if writing.is_over():
            return
        time.sleep(PAUSE_SECONDS)
    terminal.notice(f"{state}: the lab is down")
