"""YuniKorn beside a control plane: one process, told how to decide by a ConfigMap.

Its REST server listens on port 9080 of all addresses, which stands in its code: one on a machine.
"""

from __future__ import annotations

from kailab.cluster.base import namespace
from kailab.cluster.controlplane.ports import LOOPBACK, is_free_everywhere
from kailab.cluster.protocol import Cluster
from kailab.undertest import programs
from kailab.undertest.beside import AddonBeside
from kailab.undertest.contract import Rest, SchedulerFailed, Start, Tell
from kailab.undertest.programs import Program, shows
from kailab.undertest.translation.queues import Queues
from kailab.undertest.yunikorn.queues import config_map
from kailab.undertest.yunikorn.rest import YuniKornRest
from kailab.undertest.yunikorn.words import NAME, NAMESPACE, PORT


class YuniKornBeside(AddonBeside):
    name = NAME

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

    def rest(self, cluster: Cluster) -> Rest:
        return YuniKornRest(self._plane, cluster)
