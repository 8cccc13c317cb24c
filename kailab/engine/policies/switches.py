"""KAI's plugins as switches: the rules that are on, and the order of job comparisons.

Source: KAI plugins/factory.go and the default configuration of conf_util.
"""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_PLUGINS = (
    "predicates", "proportion", "priority", "elastic", "kubeflow", "ray", "nodeavailability", "gpusharingorder",
    "gpupack", "resourcetype", "podaffinity", "subgrouporder", "taskorder", "nominatednode", "dynamicresources",
    "nodeplacement", "minruntime", "topology", "snapshot", "sg-nodelocalgreedy", "sg-multinodegang",
)  # fmt: skip
"""KAI's default plugins: the list built into its scheduler, in its order, and podaffinity, which its operator (and
earlier its chart) adds in every release.
"""

JOB_ORDER = ("priority", "elastic")
GENERATORS = ("sg-nodelocalgreedy", "sg-multinodegang")


class Switches(NamedTuple):
    """``job_order``: the comparisons of jobs, in order. ``generators``: plugin names of the searches for victims, in
    order.
    """

    job_order: tuple[str, ...] = JOB_ORDER
    task_order: bool = True
    subgroup_order: bool = True
    node_placement: bool = True
    node_availability: bool = True
    resource_type: bool = True
    nominated_node: bool = True
    pod_affinity: bool = True
    min_runtime: bool = True
    topology: bool = True
    generators: tuple[str, ...] = GENERATORS

    @property
    def kai_order(self) -> bool:
        """True if jobs, tasks and subgroups are in the default order."""
        return self.job_order == JOB_ORDER and self.task_order and self.subgroup_order


def switches(plugins: tuple[str, ...] | None) -> Switches:
    """The switches for a list of plugins that are on, in order; None: KAI's default list."""
    if plugins is None:
        return Switches()
    return Switches(
        job_order=tuple(name for name in plugins if name in JOB_ORDER),
        task_order="taskorder" in plugins,
        subgroup_order="subgrouporder" in plugins,
        node_placement="nodeplacement" in plugins,
        node_availability="nodeavailability" in plugins,
        resource_type="resourcetype" in plugins,
        nominated_node="nominatednode" in plugins,
        pod_affinity="podaffinity" in plugins,
        min_runtime="minruntime" in plugins,
        topology="topology" in plugins,
        # In the order in which they are tried.
        generators=tuple(name for name in plugins if name in GENERATORS),
    )
