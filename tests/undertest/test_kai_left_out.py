"""After an upgrade: programs of the release before that the one now does not start."""

import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.polling import wait_until
from kailab.undertest.contract import SchedulerFailed
from kailab.undertest.kai.processes import KaiProcesses


def test_which_that_do_not_run_are_missed(plane: ControlPlane) -> None:
    """Who was stopped and not started again belonged to the release before; unless every release has it."""
    beside = KaiProcesses(plane)
    for name in ("kai-admission", "kai-queuecontroller"):
        plane.spawn(name, ["/bin/sleep", "600"])
        plane.stop(name)
    beside.check()
    plane.spawn("kai-podgroupcontroller", ["/bin/false"])
    assert wait_until(lambda: any(one.exit == 1 for one in plane.processes()), 600)
    with pytest.raises(SchedulerFailed, match="kai-podgroupcontroller does not run: it ended with exit code 1"):
        beside.check()
    plane.stop("kai-podgroupcontroller")
    beside.check()
    plane.spawn("kai-binder", ["/bin/sleep", "600"])
    beside.check()
    plane.stop("kai-binder")
    with pytest.raises(SchedulerFailed, match="kai-binder does not run: stopped"):
        beside.check()
