"""The scheduler under test where it is not kailab's own: kube-scheduler, or a real KAI, as local processes."""

from kailab.undertest.kai import check_kai, start_kai, stop_kai
from kailab.undertest.kai_folder import BINARIES_ENV, CRDS_ENV, KaiFolder, find_kai
from kailab.undertest.kai_settings import KaiSettings, Unsupported, kai_settings
from kailab.undertest.kai_version import kai_version
from kailab.undertest.kube_scheduler import check_kube_scheduler, start_kube_scheduler, stop_kube_scheduler
from kailab.undertest.programs import SchedulerFailed

__all__ = [
    "BINARIES_ENV",
    "CRDS_ENV",
    "KaiFolder",
    "KaiSettings",
    "SchedulerFailed",
    "Unsupported",
    "check_kai",
    "check_kube_scheduler",
    "find_kai",
    "kai_settings",
    "kai_version",
    "start_kai",
    "start_kube_scheduler",
    "stop_kai",
    "stop_kube_scheduler",
]
