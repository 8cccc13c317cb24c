"""Two schedulers in one cluster: kailab's or a real KAI, and the default one of Kubernetes beside it."""

from kailab.undertest.together.scheduler import KaiTogether, Together

__all__ = ["KaiTogether", "Together"]
