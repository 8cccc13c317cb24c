"""A plane of a test or a benchmark ends with the process that opened it, however that ends: a shell in a session of its own looks
on, and takes down what is left. (One that a user opened by name goes on: that is what it is for.)"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_WATCH = """
(
  while kill -0 "$1" 2>/dev/null && [ -d "$2" ]; do sleep 1; done
  [ -d "$2" ] && exec "$3" -m kailab.lab.lastwill "$4" "$2"
) </dev/null >/dev/null 2>&1 &
"""


def ends_with_this_process(folder: Path, backend: str) -> None:
    """``folder``: of a plane of this backend."""
    # Through a shell that ends at once: nobody here has to wait for the one that looks on.
    arguments = (str(os.getpid()), str(folder), sys.executable, backend)
    subprocess.run(["/bin/sh", "-c", _WATCH, "kailab-lastwill", *arguments], start_new_session=True, check=True)


def main(backend: str, folder: str) -> None:
    if backend == "kind":
        from kailab.cluster.kind import take_down
    else:
        from kailab.cluster.controlplane import take_down
    take_down(Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
