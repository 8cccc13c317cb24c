"""The schedulers under test by name. Cheap to import: see ``kailab.cluster.choices``."""

from __future__ import annotations

from kailab.cluster.choices import Choice, Registry

SCHEDULERS: Registry[Choice] = Registry(
    "scheduler",
    {
        "kailab": Choice("kailab's own", frozenset({"config", "adopt_default_scheduler"})),
        # To it all pods come that name none, asked for or not.
        "kube-scheduler": Choice("the default scheduler of Kubernetes", frozenset({"adopt_default_scheduler"})),
        "kai": Choice("a real KAI", frozenset({"kai", "kai_crds", "kai_pods", "config"})),
    },
)
