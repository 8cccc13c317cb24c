"""Kinds that are only owners of pods in a lab: pipelines, virtual machines, run:ai's workloads. On a real cluster their operators make the
pods, and KAI groups them."""

from __future__ import annotations

from typing import Any

from kailab.model.kind import Kind

_FAMILIES = "kailab.grouping.families.plain_workloads"
_WRAPPER = f"{_FAMILIES}:WRAPPER"


def _owner(group: str, versions: str, kind: str, plural: str, *short: str, **parts: Any) -> Kind:
    return Kind(group=group, kind=kind, versions=tuple(versions.split()), plural=plural, short=short, **parts)


KINDS = (
    _owner("tekton.dev", "v1 v1beta1", "PipelineRun", "pipelineruns", "pr", "prs"),
    _owner("tekton.dev", "v1 v1beta1", "TaskRun", "taskruns", "tr", "trs"),
    _owner("machinelearning.seldon.io", "v1 v1alpha2", "SeldonDeployment", "seldondeployments", "sdep"),
    _owner("kubevirt.io", "v1", "VirtualMachine", "virtualmachines", "vm", "vms"),
    _owner("kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances", "vmi", "vmis"),
    _owner("workspace.devfile.io", "v1alpha2", "DevWorkspace", "devworkspaces", "dw"),
    _owner("amlarc.azureml.com", "v1alpha1", "AmlJob", "amljobs", grouping=f"{_FAMILIES}:AML_JOB"),
    _owner("egx.nvidia.io", "v1", "SPOTRequest", "spotrequests", grouping=f"{_FAMILIES}:SPOT_REQUEST"),
    _owner("run.ai", "v1 v2alpha1", "RunaiJob", "runaijobs", "rj", grouping=f"{_FAMILIES}:RUNAI_JOB"),
    *(
        _owner("run.ai", "v1 v2alpha1", kind, f"{kind.lower()}s", grouping=_WRAPPER)
        for kind in (
            "TrainingWorkload",
            "InteractiveWorkload",
            "DistributedWorkload",
            "InferenceWorkload",
            "DistributedInferenceWorkload",
        )
    ),
)
