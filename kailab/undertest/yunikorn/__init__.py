"""Apache YuniKorn, as a process beside a plane."""

from kailab.undertest.yunikorn.scheduler import YuniKorn

__all__ = ["YuniKorn"]
