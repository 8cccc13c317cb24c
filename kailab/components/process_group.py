"""Commands that start processes of their own: all of them end with us, and with the command."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def group(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The command, in a process group of its own; an exception that leaves the block ends all of the group. ``how``: see
    subprocess.Popen."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **how) as process:
        try:
            yield process
        except BaseException:
            # Nobody may be left in the group; macOS says so in another way where zombies are.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
