"""One lab: a cluster, a fleet and a scheduler under test, and what users ask of it and expect from it.

>>> from kailab.lab import Lab, expect

- ``lab``: the class ``Lab``; its docstring names the modules that its methods call. ``open_lab``: a lab as these modules see it.
- ``spec``, ``saved``: what a lab is, and its file; ``life`` and ``lab_files`` begin, resume and end labs for commands.
- ``venues``: where the cluster of a lab is, one module for each backend; ``parts``: the controllers and the scheduler over it.
- ``intake``, then ``advice``, ``references``, ``inert_kinds``, ``unknown_fields``: manifests are read, checked and applied.
- ``settle``, ``live_settling``: time, and when a lab is quiet.
- ``picture``: the state at one moment, read by ``subjects``, ``expectations``, ``temporal``, ``costs``, ``metric_samples`` and
  ``kailab.explain``.
- ``change``, ``node_changes``, ``cluster_copies``: changes as data, and copies of a lab to try them on.
- ``answer``: the classes of an explanation, which ``kailab.explain`` fills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.exports import on_demand

if TYPE_CHECKING:
    from kailab.lab.answer import Answer
    from kailab.lab.expectations import Expectation, at_least, at_most, between, expect
    from kailab.lab.lab import Lab
    from kailab.lab.subjects import Subject
    from kailab.lab.temporal import eventually, never, stays
else:
    __getattr__ = on_demand(
        __name__,
        {
            "at_least": "expectations",
            "at_most": "expectations",
            "between": "expectations",
            "Expectation": "expectations",
            "expect": "expectations",
            "Answer": "answer",
            "Lab": "lab",
            "Subject": "subjects",
            "eventually": "temporal",
            "never": "temporal",
            "stays": "temporal",
        },
    )

__all__ = [
    "Expectation",
    "Answer",
    "Lab",
    "Subject",
    "at_least",
    "at_most",
    "between",
    "eventually",
    "expect",
    "never",
    "stays",
]
