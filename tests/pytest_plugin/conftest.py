"""pytester runs tests within this process, and then forgets what they imported: what can't be loaded a second time (numpy), and what
registries hold by its class, is loaded before."""

from __future__ import annotations

import kailab.evidence.recorder
import kailab.grouping.plans
import kailab.kinds
import kailab.lab.lab
import kailab.lab.parts
import kailab.lab.venues.embedded
import kailab.scheduler.composition
import kailab.workloads  # noqa: F401
