"""kailab's own scheduler: in this process, or as a process beside a plane."""

from kailab.undertest.kailab.scheduler import Kailab

__all__ = ["Kailab"]
