"""The kind command: makes, deletes and loads images into kind clusters, and explains why a kind command failed.

Clusters are made and deleted through pytest-kind's KindCluster. KindCluster lets kind write to the terminal, makes a
folder ``.pytest-kind`` in the working directory, has no time limit, and takes over any cluster of the same name. So it
runs in a child process in the lab's folder, with its output in a log, and names are checked and locked here.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import dropwhile, pairwise
from pathlib import Path

from kailab.cluster.controlplane.supervision import MARK
from kailab.cluster.kind.docker import raise_if_unavailable
from kailab.components.process_group import process_group, run_command
from kailab.errors import ConnectError, InputError, StateError
from kailab.model.private_files import make_folder, open_private

_KIND = "ERROR:"
_KUBEADM = "error:"
_COMMAND = ': command "'


def kind_error(output: str) -> str:
    """The error message of kind; if a command in the node failed, with that command's own error."""
    lines = output.splitlines()
    errors = [line.strip().removeprefix(_KIND).strip() for line in lines if line.strip().startswith(_KIND)]
    cause = " ".join(_cause(lines))
    if errors and cause:
        # That the command failed says less than its own error.
        return f"{errors[-1].partition(_COMMAND)[0]}: {cause}"
    words = [line.strip() for line in lines if line.strip()]
    return (errors or words or ["kind gave no reason"])[-1]


def _cause(lines: list[str]) -> Iterator[str]:
    """The error of kubeadm, which may have several lines. A stack follows it: function names, each with an indented line."""
    left = list(dropwhile(lambda line: not line.startswith(_KUBEADM), lines))
    for line, after in pairwise([*left, ""]):
        if after.startswith("\t") or line.startswith("To see the stack trace"):
            return
        if line.strip():
            yield line.removeprefix(_KUBEADM).strip()


CREATE_SECONDS = 1200.0
DELETE_SECONDS = 120.0
EXPORT_SECONDS = 120.0
LOAD_SECONDS = 900.0
ANSWER_SECONDS = 30.0
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,46}[a-z0-9])?")
"""kind adds up to 16 characters to make a host name, and host names have at most 63."""


def library_reason() -> str | None:
    """Why pytest-kind can't be used; None if it can."""
    if find_spec("pytest_kind") is None:
        return "pytest-kind is not installed; install kailab[kind]"
    return None


def check_library() -> None:
    """Raises ConnectError if pytest-kind can't be used."""
    raise_if_unavailable(library_reason())


def check_name(name: str) -> str:
    """Raises InputError for a name that a kind cluster can't have."""
    if NAME.fullmatch(name) is None:
        raise InputError(
            f"{name!r} can't be a kind cluster's name; expected small letters, digits, dots and dashes, at most 48"
        )
    return name


@dataclass(frozen=True)
class KindCommand:
    """Makes and deletes clusters with one kind binary. With ``kubectl`` given, pytest-kind does not download its own."""

    kind: Path
    kubectl: Path

    def clusters(self) -> list[str]:
        """Names of all clusters. Raises ConnectError if kind fails."""
        return self._ask("get", "clusters").split()

    def kubeconfig(self, name: str) -> str:
        """Raises ConnectError if the cluster does not exist, or its node does not run."""
        return self._ask("get", "kubeconfig", "--name", name)

    @contextmanager
    def claimed(self, name: str) -> Iterator[None]:
        """Reserve a name: no cluster has it, and no other process of this user makes one meanwhile. Raises StateError."""
        with _name_held(name):
            if name in self.clusters():
                raise StateError(
                    f"there is a kind cluster {name!r} already; choose another name, or delete it: "
                    f"kind delete cluster --name {name}"
                )
            yield

    def create(self, name: str, folder: Path, image: str, config: Path) -> None:
        """Make a cluster; writes ``folder/kubeconfig`` (0600) and ``folder/logs/kind.log``. Raises ConnectError with
        kind's reason, and kubeadm's."""
        self._run("create", name, folder, CREATE_SECONDS, image=image, config=config)

    def delete(self, name: str, folder: Path) -> None:
        """Delete a cluster, if there is one of that name. Raises ConnectError."""
        self._run("delete", name, folder, DELETE_SECONDS)
        # Locked and released: a process that was killed while it made the cluster has left its lock file.
        with suppress(StateError), _name_held(name):
            pass

    def load(self, name: str, archive: Path) -> None:
        """Load the images of an archive into all nodes of a cluster. Raises ConnectError."""
        self._ask("load", "image-archive", str(archive), "--name", name, seconds=LOAD_SECONDS)

    def export_logs(self, name: str, folder: Path) -> None:
        """Export the logs of the nodes: kubelet, containerd, pods. Raises ConnectError."""
        self._ask("export", "logs", str(folder), "--name", name, seconds=EXPORT_SECONDS)

    def _ask(self, *arguments: str, seconds: float = ANSWER_SECONDS) -> str:
        try:
            done = run_command([str(self.kind), *arguments], seconds)
        except (OSError, subprocess.SubprocessError) as error:
            raise ConnectError(f"{self.kind} does not answer: {error}") from error
        if done.returncode != 0:
            raise ConnectError(f"kind {' '.join(arguments)}: {kind_error(done.stderr)}")
        return done.stdout

    def _run(
        self, action: str, name: str, folder: Path, seconds: float, image: str = "", config: Path | None = None
    ) -> None:
        options = ["--kind", str(self.kind), "--kubectl", str(self.kubectl), "--image", image]
        if config is not None:
            options += ["--config", str(config.resolve())]
        log = folder / "logs" / "kind.log"
        make_folder(log.parent)
        with open_private(log, "a+b") as out:
            # Appended: the output of an earlier try is not this one's.
            begin = out.tell()
            try:
                command = [sys.executable, "-m", __name__, action, name, *options]
                # A command that takes too long is ended with its children, as kind would go on without its parent. They have the
                # mark of the folder's processes, so that they are found even if this process can't end them.
                marked = {**os.environ, MARK: str(folder)}
                with process_group(command, cwd=folder, env=marked, stdout=out, stderr=out) as child:
                    code = child.wait(seconds)
            except subprocess.TimeoutExpired as error:
                raise ConnectError(f"kind cluster {name!r}: {action} took over {seconds:.0f} s") from error
            out.seek(begin)
            output = out.read().decode("utf-8", errors="replace")
        if code != 0:
            raise ConnectError(f"kind cluster {name!r}: {action} failed: {kind_error(output)}")


@contextmanager
def _name_held(name: str) -> Iterator[None]:
    """Lock a name among the processes of this user."""
    path = Path(tempfile.gettempdir()) / f"kailab-kind-{os.getuid()}-{name}.lock"
    while (held := _locked(path, name)) is None:
        pass
    try:
        yield
    finally:
        # While it is locked: a moment later it could be another process's file.
        path.unlink(missing_ok=True)
        os.close(held)


def _locked(path: Path, name: str) -> int | None:
    """The open, locked file; None if its last holder has removed it meanwhile, because a lock on it excludes nobody."""
    try:
        # Others may write into this folder: do not follow a link there.
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StateError(f"{path}: the lock for the name {name!r} can't be made: {error}") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Nobody removes a locked file, so it stays from here on.
        if os.fstat(held).st_nlink:
            return held
    except OSError as error:
        os.close(held)
        raise StateError(f"a kind cluster {name!r} is being made by another process") from error
    os.close(held)
    return None


def main(arguments: list[str] | None = None) -> None:
    """The child process: one action on one cluster, in the lab's folder."""
    from pytest_kind.cluster import KindCluster

    parser = argparse.ArgumentParser(prog="kailab.cluster.kind.kind_command")
    parser.add_argument("action", choices=("create", "delete"))
    parser.add_argument("name")
    parser.add_argument("--kind", type=Path, required=True)
    parser.add_argument("--kubectl", type=Path, required=True)
    parser.add_argument("--image", default="")
    parser.add_argument("--config", type=Path)
    options = parser.parse_args(arguments)
    kubeconfig = Path.cwd() / "kubeconfig"
    cluster = KindCluster(
        options.name, kubeconfig, image=options.image or None, kind_path=options.kind, kubectl_path=options.kubectl
    )
    try:
        if options.action == "create":
            # Before kind writes into it, so that the credentials are never readable for others.
            kubeconfig.touch(0o600)
            cluster.create(config_file=options.config)
        else:
            cluster.delete()
    except subprocess.CalledProcessError as error:
        # kind has logged the reason; a traceback after it would be taken for the reason.
        raise SystemExit(error.returncode or 1) from None
    finally:
        # KindCluster's own folder, which stays empty because both programs are given.
        if cluster.path.is_dir() and not any(cluster.path.iterdir()):
            cluster.path.rmdir()
            cluster.path.parent.rmdir()


if __name__ == "__main__":
    main()
