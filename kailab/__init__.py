"""kailab: a test harness and validation lab for GPU-cluster scheduling.

>>> from kailab import Lab, expect
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

# Locks, process groups and sockets of the system are used throughout.
if sys.platform == "win32":
    raise ImportError(
        "kailab runs on Linux, macOS and WSL 2. On Windows, install WSL (`wsl --install`), and kailab in its shell."
    )

from kailab.exports import on_demand
from kailab.version import __version__

if TYPE_CHECKING:
    from kailab.engine import EngineConfig
    from kailab.errors import (
        ConnectError,
        EvidenceError,
        ExpectationFailed,
        ExtensionError,
        InputError,
        InputErrors,
        KailabError,
        PolicyError,
        StateError,
    )
    from kailab.fleet.fleet import Fleet
    from kailab.fleet.reading import load_fleet
    from kailab.lab import Answer, Lab, at_least, at_most, between, eventually, expect, never, stays
    from kailab.scheduler.settings.config_file import SchedulerSettings, load_settings
else:
    __getattr__ = on_demand(
        __name__,
        {
            "EngineConfig": "engine.config",
            "ConnectError": "errors",
            "EvidenceError": "errors",
            "ExpectationFailed": "errors",
            "ExtensionError": "errors",
            "InputError": "errors",
            "InputErrors": "errors",
            "KailabError": "errors",
            "PolicyError": "errors",
            "StateError": "errors",
            "Fleet": "fleet.fleet",
            "load_fleet": "fleet.reading",
            "Answer": "lab.answer",
            "Lab": "lab.lab",
            "at_least": "lab.expectations",
            "at_most": "lab.expectations",
            "between": "lab.expectations",
            "eventually": "lab.temporal",
            "expect": "lab.expectations",
            "never": "lab.temporal",
            "stays": "lab.temporal",
            "SchedulerSettings": "scheduler.settings.config_file",
            "load_settings": "scheduler.settings.config_file",
        },
    )

__all__ = [
    "Answer",
    "ConnectError",
    "EngineConfig",
    "EvidenceError",
    "ExpectationFailed",
    "ExtensionError",
    "Fleet",
    "InputError",
    "InputErrors",
    "KailabError",
    "Lab",
    "PolicyError",
    "SchedulerSettings",
    "StateError",
    "__version__",
    "at_least",
    "at_most",
    "between",
    "eventually",
    "expect",
    "load_fleet",
    "load_settings",
    "never",
    "stays",
]
