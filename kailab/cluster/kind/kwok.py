"""KWOK as a local process beside a kind cluster: made ready, and waited for."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from kailab.cluster.controlplane import kwok
from kailab.cluster.controlplane.ports import LOOPBACK
from kailab.cluster.stages import write_stages
from kailab.cluster.waiting import wait_until
from kailab.errors import ConnectError

NAME = "kwok"
HEALTHY_SECONDS = 300.0
_LOOK_SECONDS = 10.0


def prepare(folder: Path, stages: Path | None) -> None:
    """Write its configuration. ``stages``: a file of Stage objects, None: kailab's own."""
    own = folder / "stages.yaml"
    told = (stages or write_stages(own)).read_text(encoding="utf-8")
    own.unlink(missing_ok=True)
    kwok.write_config(folder, told)


def await_healthy(port: int, why_not: Callable[[], str]) -> None:
    """``why_not``: why it does not run, empty while it does. Raises ConnectError if it ends or does not get to work."""
    ended: list[str] = []

    def done() -> bool:
        ended[:] = [why for why in (why_not(),) if why]
        return bool(ended) or _is_healthy(port)

    if not wait_until(done, HEALTHY_SECONDS):
        raise ConnectError(f"KWOK does not get to work in {HEALTHY_SECONDS:.0f} s")
    if ended:
        raise ConnectError(f"KWOK does not run: {ended[0]}")


def _is_healthy(port: int) -> bool:
    # No proxy, whatever the environment says: the address is this machine's.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{LOOPBACK}:{port}/healthz", timeout=_LOOK_SECONDS) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False
