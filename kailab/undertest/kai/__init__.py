"""A real KAI: a folder of its programs, as processes beside a plane; or whichever runs in somebody else's cluster."""

from kailab.undertest.kai.scheduler import Kai

__all__ = ["Kai"]
