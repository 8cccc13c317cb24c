"""YuniKorn beside a control plane: one process, told how to decide by a ConfigMap.

Its REST server listens on port 9080 of all addresses, which stands in its code: one on a machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kailab.cluster.base import namespace
from kailab.cluster.controlplane.ports import LOOPBACK, is_free_everywhere
from kailab.cluster.protocol import Cluster
from kailab.undertest import programs
from kailab.undertest.contract import Beside, Plane, Rest, SchedulerFailed, Start, Tell
from kailab.undertest.programs import Program, shows
from kailab.undertest.translation.queues import Queues
from kailab.undertest.yunikorn.queues import config_map
from kailab.undertest.yunikorn.rest import YuniKornRest
from kailab.undertest.yunikorn.words import NAME, NAMESPACE

if TYPE_CHECKING:
    from kailab.components import Addon

PORT = 9080


class YuniKornBeside(Beside):
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    @cached_property
    def _addon(self) -> Addon:
        from kailab.components import find_addon

        return find_addon(NAME)

    def start(self, cluster: Cluster, start: Start, tell: Tell = lambda _: None) -> None:
        """Returns when it says that it is healthy. Raises MissingComponents where it was not got, SchedulerFailed where another one
        runs on this machine."""
        if not is_free_everywhere(PORT):
            raise SchedulerFailed(
                f"YuniKorn can't be started: the port {PORT} of this machine is taken (by another lab with YuniKorn?), and it serves "
                "there and nowhere else; end that lab first"
            )
        cluster.apply(namespace(NAMESPACE))
        cluster.apply(config_map(Queues((), cluster)))
        works = shows(
            f"http://{LOOPBACK}:{PORT}/ws/v1/scheduler/healthcheck",
            '"Healthy": ?true',
            "it does not say that it is healthy",
        )
        program = Program(NAME, self._addon.programs[NAME], (), PORT, works, {"NAMESPACE": NAMESPACE})
        programs.run(self._plane, [program])

    @property
    def names(self) -> Sequence[str]:
        return (NAME,)

    def check(self) -> None:
        programs.check(self._plane, self.names)

    def stop(self) -> None:
        programs.stop(self._plane, self.names)

    def version(self) -> str:
        return f"{NAME} {self._addon.version}"

    def rest(self, cluster: Cluster) -> Rest:
        return YuniKornRest(self._plane, cluster)
