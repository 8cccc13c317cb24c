"""The running scheduler over a cluster, and what goes with it: status of queues, the baseline to contrast with."""

from kailab.scheduler.baseline import Baseline
from kailab.scheduler.cycle_record import CycleRecord, Failure, History
from kailab.scheduler.loop import Scheduler
from kailab.scheduler.mirror import Mirror
from kailab.scheduler.settings.config_file import SchedulerSettings, load_settings, read_settings, settings_of
from kailab.scheduler.status.queue_status import QueueStatus
from kailab.scheduler.usage import UsageHistory, UsageParams

__all__ = [
    "Baseline",
    "CycleRecord",
    "Failure",
    "History",
    "Mirror",
    "QueueStatus",
    "Scheduler",
    "SchedulerSettings",
    "UsageHistory",
    "UsageParams",
    "load_settings",
    "read_settings",
    "settings_of",
]
