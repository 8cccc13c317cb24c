"""Two schedulers in one cluster: kailab's, and the default one of Kubernetes beside it."""

from kailab.undertest.together.scheduler import Together

__all__ = ["Together"]
