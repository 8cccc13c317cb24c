"""The kinds of object kailab knows, and the names people call them by.

A *kind key* names a kind in code: the bare kind (``Pod``, ``Queue``), or ``Kind.group`` where the bare name
belongs to another kind (``Service.serving.knative.dev``) or kailab does not know the kind. Of a kind's
versions any is read; the first is the one written.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kailab.errors import InputError


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind. ``group`` is empty for the core group; ``versions`` come newest first."""

    key: str
    kind: str
    group: str
    versions: tuple[str, ...]
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def api_version(self) -> str:
        """What to write in ``apiVersion``."""
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]

    @property
    def resource(self) -> str:
        """``plural.group``, as kubectl prints it: ``queues.scheduling.run.ai``; bare plural in the core
        group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


# group | versions | kinds as "Kind plural short,names"; a leading * marks kinds that live outside namespaces.
_TABLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "",
        "v1",
        (
            "Pod pods po",
            "*Node nodes no",
            "*Namespace namespaces ns",
            "Event events ev",
            "ConfigMap configmaps cm",
            "Secret secrets",
            "Service services svc",
            "ServiceAccount serviceaccounts sa",
            "PersistentVolumeClaim persistentvolumeclaims pvc",
            "*PersistentVolume persistentvolumes pv",
            "ResourceQuota resourcequotas quota",
            "LimitRange limitranges limits",
            "ReplicationController replicationcontrollers rc",
            "Endpoints endpoints ep",
        ),
    ),
    (
        "apps",
        "v1",
        (
            "Deployment deployments deploy",
            "ReplicaSet replicasets rs",
            "StatefulSet statefulsets sts",
            "DaemonSet daemonsets ds",
            "ControllerRevision controllerrevisions",
        ),
    ),
    ("batch", "v1", ("Job jobs", "CronJob cronjobs cj")),
    ("scheduling.k8s.io", "v1", ("*PriorityClass priorityclasses pc",)),
    ("policy", "v1", ("PodDisruptionBudget poddisruptionbudgets pdb",)),
    ("coordination.k8s.io", "v1", ("Lease leases",)),
    ("storage.k8s.io", "v1", ("*StorageClass storageclasses sc", "CSIStorageCapacity csistoragecapacities")),
    ("node.k8s.io", "v1", ("*RuntimeClass runtimeclasses",)),
    ("apiextensions.k8s.io", "v1", ("*CustomResourceDefinition customresourcedefinitions crd,crds",)),
    (
        "rbac.authorization.k8s.io",
        "v1",
        (
            "Role roles",
            "RoleBinding rolebindings",
            "*ClusterRole clusterroles",
            "*ClusterRoleBinding clusterrolebindings",
        ),
    ),
    ("autoscaling", "v2 v1", ("HorizontalPodAutoscaler horizontalpodautoscalers hpa",)),
    (
        "resource.k8s.io",
        "v1 v1beta2 v1beta1 v1alpha3",
        (
            "ResourceClaim resourceclaims",
            "ResourceClaimTemplate resourceclaimtemplates",
            "*DeviceClass deviceclasses",
            "*ResourceSlice resourceslices",
        ),
    ),
    ("scheduling.run.ai", "v2", ("*Queue queues q",)),
    ("scheduling.run.ai", "v2alpha2", ("PodGroup podgroups pg",)),
    ("scheduling.run.ai", "v1alpha2", ("BindRequest bindrequests br",)),
    ("kai.scheduler", "v1alpha1", ("*Topology topologies",)),
    ("topology.node.k8s.io", "v1alpha2 v1alpha1", ("*NodeResourceTopology noderesourcetopologies nrt",)),
    ("kai.scheduler", "v1", ("*Config configs", "*SchedulingShard schedulingshards")),
    ("jobset.x-k8s.io", "v1alpha2", ("JobSet jobsets",)),
    ("leaderworkerset.x-k8s.io", "v1", ("LeaderWorkerSet leaderworkersets lws",)),
    (
        "kubeflow.org",
        "v1",
        (
            "PyTorchJob pytorchjobs",
            "TFJob tfjobs",
            "XGBoostJob xgboostjobs",
            "JAXJob jaxjobs",
            "PaddleJob paddlejobs",
        ),
    ),
    ("kubeflow.org", "v2beta1 v1", ("MPIJob mpijobs",)),
    ("kubeflow.org", "v1 v1beta1", ("Notebook notebooks",)),
    ("kubeflow.org", "v1beta1 v1alpha1", ("ScheduledWorkflow scheduledworkflows swf",)),
    (
        "trainer.kubeflow.org",
        "v1alpha1",
        (
            "TrainJob trainjobs",
            "TrainingRuntime trainingruntimes",
            "*ClusterTrainingRuntime clustertrainingruntimes",
        ),
    ),
    ("ray.io", "v1 v1alpha1", ("RayCluster rayclusters", "RayJob rayjobs", "RayService rayservices")),
    ("sparkoperator.k8s.io", "v1beta2", ("SparkApplication sparkapplications sparkapp",)),
    (
        "serving.knative.dev",
        "v1",
        (
            "Service services kservice,ksvc",
            "Revision revisions rev",
            "Configuration configurations config,cfg",
        ),
    ),
    (
        "grove.io",
        "v1alpha1",
        (
            "PodCliqueSet podcliquesets pcs",
            "PodGangSet podgangsets pgs",
            "PodClique podcliques pclq",
            "PodCliqueScalingGroup podcliquescalinggroups pcsg",
        ),
    ),
    ("scheduler.grove.io", "v1alpha1", ("PodGang podgangs pgang",)),
    ("argoproj.io", "v1alpha1", ("Workflow workflows wf",)),
    ("tekton.dev", "v1 v1beta1", ("PipelineRun pipelineruns pr,prs", "TaskRun taskruns tr,trs")),
    ("machinelearning.seldon.io", "v1 v1alpha2", ("SeldonDeployment seldondeployments sdep",)),
    (
        "kubevirt.io",
        "v1",
        ("VirtualMachine virtualmachines vm,vms", "VirtualMachineInstance virtualmachineinstances vmi,vmis"),
    ),
    ("workspace.devfile.io", "v1alpha2", ("DevWorkspace devworkspaces dw",)),
    ("amlarc.azureml.com", "v1alpha1", ("AmlJob amljobs",)),
    ("egx.nvidia.io", "v1", ("SPOTRequest spotrequests",)),
    (
        "run.ai",
        "v1 v2alpha1",
        (
            "RunaiJob runaijobs rj",
            "TrainingWorkload trainingworkloads",
            "InteractiveWorkload interactiveworkloads",
            "DistributedWorkload distributedworkloads",
            "InferenceWorkload inferenceworkloads",
            "DistributedInferenceWorkload distributedinferenceworkloads",
        ),
    ),
)


def _build() -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for group, versions, lines in _TABLE:
        for line in lines:
            kind, plural, *short = line.lstrip("*").split()
            key = kind if kind not in kinds else f"{kind}.{group}"
            kinds[key] = Kind(
                key=key,
                kind=kind,
                group=group,
                versions=tuple(versions.split()),
                plural=plural,
                namespaced=not line.startswith("*"),
                short=tuple(short[0].split(",")) if short else (),
            )
    return kinds


KINDS: dict[str, Kind] = _build()
"""Every known kind by its key."""

_BY_GROUP_KIND: dict[tuple[str, str], str] = {(kind.group, kind.kind): key for key, kind in KINDS.items()}
_BY_API_VERSION: dict[tuple[str, str], str] = {
    (f"{kind.group}/{version}" if kind.group else version, kind.kind): key
    for key, kind in KINDS.items()
    for version in kind.versions
}


def _names() -> dict[str, str]:
    names: dict[str, str] = {}
    for key, kind in KINDS.items():
        for name in (kind.plural, kind.singular, *kind.short):
            names.setdefault(name, key)
            if kind.group:
                names.setdefault(f"{name}.{kind.group}", key)
                for version in kind.versions:
                    names.setdefault(f"{name}.{version}.{kind.group}", key)
    return names


_BY_NAME: dict[str, str] = _names()


def key_of(api_version: str, kind: str) -> str:
    """The kind key of an apiVersion and a kind. Unknown ones get ``Kind.group`` (``Kind`` in the core group).

    >>> key_of("v1", "Service"), key_of("serving.knative.dev/v1", "Service"), key_of("example.com/v1", "Job")
    ('Service', 'Service.serving.knative.dev', 'Job.example.com')
    """
    key = _BY_API_VERSION.get((api_version, kind))
    if key is not None:
        return key
    group = api_version.rpartition("/")[0]
    return _BY_GROUP_KIND.get((group, kind)) or (f"{kind}.{group}" if group else kind)


def kind_key(obj: Mapping[str, Any]) -> str:
    """The kind key of an object (a mapping with ``apiVersion`` and ``kind``)."""
    return _BY_API_VERSION.get((obj["apiVersion"], obj["kind"])) or key_of(obj["apiVersion"], obj["kind"])


def is_namespaced(key: str, obj: Mapping[str, Any] | None = None) -> bool:
    """Whether objects of the kind live in a namespace; an unknown kind does if its object names one."""
    kind = KINDS.get(key)
    if kind is not None:
        return kind.namespaced
    return bool(obj and (obj.get("metadata") or {}).get("namespace"))


def api_version_of(key: str) -> str:
    """The apiVersion to write for a known kind. Raises KeyError for others."""
    return KINDS[key].api_version


def resolve(text: str, others: Iterable[str] = ()) -> str:
    """The kind key of what a person typed: ``pods``, ``po``, ``Pod``, ``queues.scheduling.run.ai``.

    ``others``: keys of unknown kinds that are in use and may be meant too. Raises InputError naming the
    closest.
    """
    if text in KINDS:
        return text
    wanted = text.strip().lower()
    key = _BY_NAME.get(wanted)
    if key is not None:
        return key
    for other in sorted(others):
        bare = other.partition(".")[0].lower()
        if wanted in (other.lower(), bare, bare + "s"):
            return other
    lowered = {known.lower(): known for known in KINDS}
    if wanted in lowered:
        return lowered[wanted]
    close = difflib.get_close_matches(wanted, [*_BY_NAME, *lowered], n=8)
    meant = list(dict.fromkeys(_BY_NAME.get(name) or lowered[name] for name in close))[:3]
    hint = f"; did you mean {', '.join(meant)}?" if meant else "; expected a kind such as pods, queues, podgroups, jobs"
    raise InputError(f"no kind is called {text!r:.80}{hint}")
