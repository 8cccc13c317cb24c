"""Kinds that a lab only meets as owners of pods: their operators make the pods on a real cluster, KAI groups those, and kailab
knows how. Workflows, notebooks and virtual machines, run:ai's workloads."""

from __future__ import annotations

from kailab.model.kind import Kind

_SIMPLE = "kailab.grouping.families.plain_workloads"
_WRAPPER = "kailab.grouping.families.plain_workloads:WRAPPER"


def _of(group: str, versions: str, kind: str, plural: str, *short: str, grouping: str | None = None) -> Kind:
    return Kind(group=group, kind=kind, versions=tuple(versions.split()), plural=plural, short=short, grouping=grouping)


KINDS = (
    _of("argoproj.io", "v1alpha1", "Workflow", "workflows", "wf", grouping=_WRAPPER),
    _of("nvidia.com", "v1alpha1", "DynamoGraphDeployment", "dynamographdeployments", grouping=_WRAPPER),
    _of("tekton.dev", "v1 v1beta1", "PipelineRun", "pipelineruns", "pr", "prs"),
    _of("tekton.dev", "v1 v1beta1", "TaskRun", "taskruns", "tr", "trs"),
    _of("machinelearning.seldon.io", "v1 v1alpha2", "SeldonDeployment", "seldondeployments", "sdep"),
    _of("kubevirt.io", "v1", "VirtualMachine", "virtualmachines", "vm", "vms"),
    _of("kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances", "vmi", "vmis"),
    _of("workspace.devfile.io", "v1alpha2", "DevWorkspace", "devworkspaces", "dw"),
    _of("amlarc.azureml.com", "v1alpha1", "AmlJob", "amljobs", grouping=f"{_SIMPLE}:AML_JOB"),
    _of("egx.nvidia.io", "v1", "SPOTRequest", "spotrequests", grouping=f"{_SIMPLE}:SPOT_REQUEST"),
    _of(
        "run.ai",
        "v1 v2alpha1",
        "RunaiJob",
        "runaijobs",
        "rj",
        grouping="kailab.grouping.families.plain_workloads:RUNAI_JOB",
    ),
    *(
        _of("run.ai", "v1 v2alpha1", kind, f"{kind.lower()}s", grouping=_WRAPPER)
        for kind in (
            "TrainingWorkload",
            "InteractiveWorkload",
            "DistributedWorkload",
            "InferenceWorkload",
            "DistributedInferenceWorkload",
        )
    ),
)
