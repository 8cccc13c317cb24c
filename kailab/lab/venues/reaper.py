"""End the plane of a test or a benchmark with the process that opened it, however that ends: a shell in its own session watches and takes
the plane down. (A plane that a user opened with a folder goes on.)
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from kailab.lab.venues import provider_of
from kailab.lab.venues.contract import Place

# The shell waits for the end of a pipe that only the opening process holds and to which nobody writes. A process id would be less
# reliable: it exists while the process is a zombie, and may be reused.
_WATCH = """
exec 3<&0
(
  read -r _ <&3
  [ -d "$1" ] && exec "$2" -m kailab.lab.venues.reaper "$3" "$1"
) </dev/null >/dev/null 2>&1 &
"""


class Reaper:
    """Watches until this process ends or ``close`` is called, then takes the plane in ``folder`` down if it still exists."""

    def __init__(self, folder: Path, backend: str) -> None:
        read_end, self._held = os.pipe()
        # A child process would keep the pipe open after the end of this process.
        os.register_at_fork(after_in_child=self._let_go)
        try:
            # Started through a shell that ends at once, so that nobody here has to wait for the watching one.
            arguments = (str(folder), sys.executable, backend)
            command = ["/bin/sh", "-c", _WATCH, "kailab-reaper", *arguments]
            subprocess.run(command, stdin=read_end, start_new_session=True, check=True)
        finally:
            os.close(read_end)

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
