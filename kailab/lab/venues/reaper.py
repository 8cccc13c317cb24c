"""A plane of a test or a benchmark ends with the process that opened it, however that ends: a shell in a session of its own looks
on, and takes down what is left. (One that a user opened by name goes on: that is what it is for.)"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from kailab.lab.venues.contract import Place
from kailab.lab.venues.opening import provider_of

# It waits for the end of a pipe that nobody ever writes to, and that only the other process holds. A process id would still be
# there with a zombie, or with a stranger.
_WATCH = """
exec 3<&0
(
  read -r _ <&3
  [ -d "$1" ] && exec "$2" -m kailab.lab.venues.reaper "$3" "$1"
) </dev/null >/dev/null 2>&1 &
"""


class Reaper:
    """In force until this process ends, or closes it; then the plane is taken down if it is still there. ``folder``: of a plane of
    this backend."""

    def __init__(self, folder: Path, backend: str) -> None:
        looked_at, self._held = os.pipe()
        # A child would hold the pipe open beyond the end of this process.
        os.register_at_fork(after_in_child=self._let_go)
        try:
            # Through a shell that ends at once: nobody here has to wait for the one that looks on.
            arguments = (str(folder), sys.executable, backend)
            command = ["/bin/sh", "-c", _WATCH, "kailab-reaper", *arguments]
            subprocess.run(command, stdin=looked_at, start_new_session=True, check=True)
        finally:
            os.close(looked_at)

    def close(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, -1
        with suppress(OSError):
            os.close(held)


def main(backend: str, folder: str) -> None:
    provider_of(backend).take_down(Place(backend=backend, folder=folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
