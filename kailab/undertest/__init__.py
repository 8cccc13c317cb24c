"""Schedulers under test.

- ``contract``: the interface; ``registry``: the list of schedulers; ``selection``: names, and the options that go together.
- ``running``: the schedulers of a plane; ``programs``, ``binaries``, ``webhooks``: parts for schedulers as processes.
- ``translation``: what KAI's objects mean, for schedulers with another API.
- ``kailab``, ``kai``, ``kube_scheduler``, ``two_schedulers``, ``kueue``, ``scheduler_plugins``, ``volcano``, ``yunikorn``: the
  schedulers.
"""
