"""Argo's Workflow: pods of templates, in the order of steps and of a DAG.

A template with a container, a script or a container set is a pod. A workflow's nodes are known by their names, as in Argo: ``wf``,
``wf[0].step``, ``wf.task``, ``wf.task(1:item)``. What became of each pod stands in ``status.nodes``, so that a pod that was deleted is known to
have been lost. Templates that run no container of their own (resource, http, plugin, data) succeed at once; a notice names them. Source:
Argo Workflows 3.7, workflow/controller (operator.go, steps.go, dag.go, workflowpod.go).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kailab.errors import InputError
from kailab.model.kind import Need
from kailab.model.objects import (
    Object,
    as_owner_reference,
    is_ended,
    is_terminating,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    status_of,
)
from kailab.model.patches import strategic_patch
from kailab.model.quantities import parse_count
from kailab.model.times import duration_seconds, parse_time
from kailab.model.validation.advice import DescribedPod
from kailab.model.validation.fields import shown
from kailab.model.yamltext import read_document
from kailab.workloads.controller import Controller

PREFIX = "workflows.argoproj.io/"
_TAG = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
_ENDED = frozenset(("Succeeded", "Failed", "Error", "Skipped", "Omitted"))
_LOST = frozenset(("Failed", "Error"))
_LONGEST_PREFIX = 243  # of a pod's name, without its hash
_OF_POD = ("nodeSelector", "affinity", "tolerations", "schedulerName", "serviceAccountName", "hostAliases",
           "securityContext", "automountServiceAccountToken")  # fmt: skip
_OF_WORKFLOW = (*_OF_POD, "hostNetwork", "dnsPolicy", "dnsConfig", "imagePullSecrets")
_TEMPLATES = ("WorkflowTemplate", "ClusterWorkflowTemplate")


def needs_of_workflow(obj: Object) -> Iterator[Need]:
    spec = obj["spec"]
    places: list[tuple[str, Any]] = [("spec.workflowTemplateRef", spec.get("workflowTemplateRef"))]
    for index, template in enumerate(spec.get("templates") or ()):
        at = f"spec.templates[{index}]"
        for number, group in enumerate(template.get("steps") or ()):
            for place, step in enumerate(group if isinstance(group, list) else ()):
                places.append((f"{at}.steps[{number}][{place}].templateRef", step.get("templateRef")))
        for number, task in enumerate((template.get("dag") or {}).get("tasks") or ()):
            places.append((f"{at}.dag.tasks[{number}].templateRef", task.get("templateRef")))
    for field, reference in places:
        name = (reference or {}).get("name")
        # The name behind a tag is known only when the workflow runs.
        if isinstance(name, str) and "{{" not in name:
            kind = _TEMPLATES[bool(reference.get("clusterScope"))]
            text = f"there is no {kind} {shown(name)}: Argo ends the Workflow with an error, and so does kailab"
            yield Need((kind,), partial(_has_name, name), f"{field}.name", text)


def pods_of_workflow(obj: Object) -> Iterator[DescribedPod]:
    """The pods of the workflow's own templates, as far as their parameters are known. Fields that a template does not set are the workflow's."""
    spec = _filled(obj["spec"], _known_values(obj, obj["spec"]))
    for index, own in enumerate(spec.get("templates") or ()):
        template = {**(spec.get("templateDefaults") or {}), **own}
        values = {f"inputs.parameters.{key}": value for key, value in _parameters(template.get("inputs")).items()}
        try:
            pod_spec = _pod_spec(spec, _filled(template, values)) if _runs_a_container(template) else None
        except InputError:
            continue  # its patch contains tags whose values are not known yet
        if pod_spec is not None:
            path = f"spec.templates[{index}]."
            yield DescribedPod(
                f"{path}metadata." if own.get("metadata") else "spec.podMetadata.",
                path if any(field in own for field in _OF_POD) else "spec.",
                {"metadata": _marks(spec, template), "spec": pod_spec},
            )


def _marks(spec: Object, template: Object) -> dict[str, dict[str, str]]:
    """Labels and annotations of a template's pod."""
    holders = (spec.get("podMetadata") or {}, template.get("metadata") or {})
    return {
        field: {key: value for holder in holders for key, value in (holder.get(field) or {}).items()}
        for field in ("labels", "annotations")
    }


def _known_values(owner: Object, spec: Object) -> dict[str, Any]:
    """Tag -> value, for the tags that all templates of a workflow share."""
    values = {f"workflow.parameters.{key}": value for key, value in _parameters(spec.get("arguments")).items()}
    return {**values, "workflow.name": name_of(owner), "workflow.namespace": namespace_of(owner)}


def _has_name(name: str, obj: Object) -> bool:
    return name_of(obj) == name


class WorkflowController(Controller):
    def concerned(self, event: Any) -> Iterable[tuple[str, tuple[str, str]]]:
        """All Workflows, because any may use this template."""
        return [(self.kind, (namespace_of(one), name_of(one))) for one in self._bench.cluster.list(self.kind)]

    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        status = status_of(owner)
        spec = self._spec(owner)
        if status.get("phase") in ("Succeeded", "Failed", "Error"):
            self._expire(owner, spec)
            return
        if spec is None:
            reference = owner["spec"]["workflowTemplateRef"]
            self.set_status(owner, phase="Error", message=f"there is no workflow template {reference.get('name')!r:.80}",
                            finishedAt=self._bench.stamp())  # fmt: skip
            return
        if not status.get("startedAt"):
            owner = self.set_status(owner, startedAt=self._bench.stamp())
        run = _Run(self, owner, spec)
        phase, message = run.phase()
        fields: dict[str, Any] = {"nodes": run.nodes or None, "phase": phase, "message": message or None}
        if phase in _ENDED:
            fields["finishedAt"] = self._bench.stamp()
        owner = self.set_status(owner, **fields)
        if phase in _ENDED:
            self._expire(owner, spec)

    def _spec(self, owner: Object) -> Object | None:
        """The spec with what it takes from a workflow template; None if that is missing."""
        spec: Object = owner["spec"]
        reference = spec.get("workflowTemplateRef")
        if not reference:
            return spec
        template = self.template_object(owner, reference)
        return None if template is None else {**template["spec"], **spec}

    def template_object(self, owner: Object, reference: Object) -> Object | None:
        kind = _TEMPLATES[bool(reference.get("clusterScope"))]
        return self._bench.find(
            kind, ("" if reference.get("clusterScope") else namespace_of(owner), reference.get("name", ""))
        )

    def _expire(self, owner: Object, spec: Object | None) -> None:
        strategy = (spec or {}).get("ttlStrategy") or {}
        good = status_of(owner).get("phase") == "Succeeded"
        own = strategy.get("secondsAfterSuccess" if good else "secondsAfterFailure")
        seconds = own if own is not None else strategy.get("secondsAfterCompletion")
        self.expire(owner, status_of(owner).get("finishedAt"), seconds)


_MOST_LEVELS = 100
"""Argo's own bound on templates that call each other; it guards against one that calls itself without end."""


class _TooDeep(Exception):
    """Templates call each other on more levels than Argo allows."""


class _Run:
    """One look at a workflow. ``nodes``: what is known of its pods, by name of the node."""

    def __init__(self, controller: WorkflowController, owner: Object, spec: Object) -> None:
        self._controller, self._bench = controller, controller._bench
        self.owner = owner
        self._values = _known_values(owner, spec)
        # Templates are filled in when their own inputs are known.
        self.spec = {key: value if key == "templates" else _filled(value, self._values) for key, value in spec.items()}
        self.nodes: dict[str, dict[str, Any]] = {**(status_of(owner).get("nodes") or {})}
        self._templates = {one["name"]: one for one in spec.get("templates") or () if one.get("name")}
        self._pods = {name_of(pod): pod for pod in self._bench.owned(owner, "Pod")}
        self._stopped = bool(spec.get("suspend"))
        self._problem = ""
        self._depth = 0

    def phase(self) -> tuple[str, str]:
        """The phase of the workflow and why it is not good. Creates the pods that are due."""
        name, spec = name_of(self.owner), self.spec
        deadline, began = spec.get("activeDeadlineSeconds"), status_of(self.owner).get("startedAt")
        if spec.get("shutdown"):
            return self._kill("Failed", f"Stopped with strategy '{spec['shutdown']}'")
        if deadline is not None and self._controller.is_due(self.owner, parse_time(began) + deadline):
            return self._kill("Failed", "Step exceeded its deadline")
        if not spec.get("entrypoint") and status_of(self.owner).get("phase") == "Running":
            # A snapshot keeps no entrypoint, which is a command in other kinds. What runs goes on, and nothing new begins.
            return "Running", "the workflow was taken over in part: its templates are not known"
        try:
            root = self._node(name, {"template": spec.get("entrypoint", "")}, _parameters(spec.get("arguments")))
            if root not in _ENDED:
                return "Running", self._problem
            last = self._node(f"{name}.onExit", {"template": spec["onExit"]}, {}) if spec.get("onExit") else root
        except _TooDeep as error:
            return self._kill("Error", str(error))
        if last not in _ENDED:
            return "Running", self._problem
        return next((phase for phase in (last, root) if phase in _LOST), "Succeeded"), self._problem

    def _kill(self, phase: str, message: str) -> tuple[str, str]:
        self._bench.delete("Pod", *(pod for pod in self._pods.values() if not is_ended(pod)))
        for name, node in self.nodes.items():
            if node["phase"] not in _ENDED:
                self.nodes[name] = {**node, "phase": "Failed", "finishedAt": self._bench.stamp()}
        return phase, message

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _node(self, name: str, step: Object, arguments: Mapping[str, Any]) -> str:
        """The phase of a node: of a step, a task or the entrypoint. Raises _TooDeep."""
        if self._depth == _MOST_LEVELS:
            raise _TooDeep(f"Maximum recursion depth exceeded: a template calls itself {_MOST_LEVELS} times")
        self._depth += 1
        try:
            return self._node_below(name, step, arguments)
        finally:
            self._depth -= 1

    def _node_below(self, name: str, step: Object, arguments: Mapping[str, Any]) -> str:
        template = self._template(step)
        if template is None:
            wanted = (step.get("templateRef") or {}).get("template") or step.get("template")
            self._problem = f"{name}: there is no template {wanted!r:.80}"
            return "Error"
        given = {**_parameters(template.get("inputs")), **arguments}
        values = {f"inputs.parameters.{key}": value for key, value in given.items()}
        template = _filled(template, {**values, **self._values})
        retries = template.get("retryStrategy") or self.spec.get("retryStrategy")
        if retries is None or not _runs_a_container(template):
            return self._once(name, template)
        limit = _count(retries["limit"]) if retries.get("limit") is not None else None
        policy = retries.get("retryPolicy", "Always" if retries.get("expression") else "OnFailure")
        again = {"Always": _LOST, "OnFailure": {"Failed"}, "OnError": {"Error"}}.get(policy, frozenset())
        attempt = 0
        while True:
            phase = self._once(f"{name}({attempt})", template)
            if phase not in again or (limit is not None and attempt >= limit):
                return phase
            attempt += 1

    def _once(self, name: str, template: Object) -> str:
        if "steps" in template:
            return self._steps(name, template)
        if "dag" in template:
            return self._dag(name, template)
        if "suspend" in template:
            return self._wait(name, template["suspend"] or {})
        return self._pod(name, template) if _runs_a_container(template) else "Succeeded"

    def _template(self, step: Object) -> Object | None:
        reference, found = step.get("templateRef"), step.get("inline")
        if reference:
            holder = self._controller.template_object(self.owner, reference)
            among = (holder or {}).get("spec", {}).get("templates") or ()
            found = next((one for one in among if one.get("name") == reference.get("template")), None)
        elif found is None:
            found = self._templates.get(step.get("template") or step.get("name", ""))
        return None if found is None else {**(self.spec.get("templateDefaults") or {}), **found}

    def _steps(self, name: str, template: Object) -> str:
        """Groups one after the other; a group ends when all of its steps have."""
        for place, group in enumerate(template["steps"]):
            steps = group.get("steps") or () if isinstance(group, dict) else group
            children = [child for step in steps for child in _expanded(f"{name}[{place}].{step.get('name', '')}", step)]
            phases = self._children(children, template)
            if not all(phase in _ENDED for _, phase in phases):
                return "Running"
            if any(phase in _LOST and not _tolerated(step, phase) for step, phase in phases):
                return "Failed"
        return "Succeeded"

    def _children(
        self, children: Sequence[tuple[str, Object, dict[str, Any]]], template: Object
    ) -> list[tuple[Object, str]]:
        """The phases of nodes that run beside each other, no more at once than the template's parallelism."""
        limit = None if template.get("parallelism") is None else _count(template["parallelism"])
        running = 0
        phases: list[tuple[Object, str]] = []
        for name, step, arguments in children:
            if limit is not None and running >= limit and not self._began(name):
                phases.append((step, "Pending"))
                continue
            phase = self._node(name, step, arguments)
            running += phase not in _ENDED
            phases.append((step, phase))
        return phases

    def _began(self, name: str) -> bool:
        return any(node == name or (node.startswith(name) and node[len(name)] in "([.") for node in self.nodes)

    def _dag(self, name: str, template: Object) -> str:
        tasks = {task["name"]: task for task in template["dag"].get("tasks") or ()}
        phases: dict[str, str] = {}
        fail_fast = template["dag"].get("failFast", True)
        due = dict(tasks)
        while due:
            ready = [task for task, one in due.items() if not any(need in due for need in _needs(one, tasks))]
            if not ready:
                self._problem = f"{name}: the tasks {', '.join(due)} wait for each other"
                return "Error"
            for task in ready:
                phases[task] = self._task(f"{name}.{task}", due.pop(task), tasks, phases, template, fail_fast)
        if any(phase not in _ENDED for phase in phases.values()):
            return "Running"
        ran = {need for task, one in tasks.items() if phases[task] != "Omitted" for need in _needs(one, tasks)}
        lost = [task for task, phase in phases.items() if phase in _LOST and not _tolerated(tasks[task], phase)]
        return "Failed" if any(task not in ran for task in lost) else "Succeeded"

    def _task(
        self,
        name: str,
        task: Object,
        tasks: dict[str, Object],
        phases: dict[str, str],
        template: Object,
        fail_fast: bool,
    ) -> str:
        """The phase of a task of a DAG, whose dependencies have phases."""
        needs = _needs(task, tasks)
        if any(phases[need] not in _ENDED for need in needs):
            return "Pending"
        try:
            if not _holds(task, phases):
                return "Omitted"
        except InputError as error:
            self._problem = f"{name}: depends: {error}"
            return "Error"
        failing = any(phase in _LOST and not _tolerated(tasks[other], phase) for other, phase in phases.items())
        if (
            failing
            and fail_fast
            and not needs & {other for other, phase in phases.items() if phase in _LOST}
            and not self._began(name)
        ):
            return "Omitted"
        found = [phase for _, phase in self._children(list(_expanded(name, task)), template)]
        if any(phase not in _ENDED for phase in found):
            return "Running"
        return next((phase for phase in found if phase in _LOST), "Succeeded")

    def _wait(self, name: str, suspend: Object) -> str:
        node = self.nodes.setdefault(
            name, {"name": name, "type": "Suspend", "phase": "Running", "startedAt": self._bench.stamp()}
        )
        if node["phase"] in _ENDED or not suspend.get("duration"):
            return str(node["phase"])
        text = str(suspend["duration"])
        try:
            pause = float(text) if text.isdigit() else duration_seconds(text, days=True)
        except InputError as error:
            self.nodes[name] = {**node, "phase": "Error", "message": str(error), "finishedAt": self._bench.stamp()}
            return "Error"
        if not self._controller.is_due(self.owner, parse_time(node["startedAt"]) + pause):
            return "Running"
        self.nodes[name] = {**node, "phase": "Succeeded", "finishedAt": self._bench.stamp()}
        return "Succeeded"

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _pod(self, name: str, template: Object) -> str:
        pod_name = _pod_name(name_of(self.owner), name, template.get("name", ""))
        node = self.nodes.get(name)
        if node is not None and node["phase"] in _ENDED:
            return str(node["phase"])
        pod = self._pods.get(pod_name)
        if pod is not None:
            phase = phase_of(pod)
        elif node is not None:
            phase = "Error"  # it was deleted before it ended
        elif not self._may_start() or (pod := self._create(name, pod_name, template)) is None:
            return "Pending"
        else:
            phase = "Pending"
        if pod is not None and is_terminating(pod) and phase not in _ENDED:
            phase = "Running" if node_of(pod) else "Pending"
        entry = {"name": name, "type": "Pod", "templateName": template.get("name", ""), "phase": phase}
        entry["startedAt"] = (node or {}).get("startedAt") or self._bench.stamp()
        if phase in _ENDED:
            entry["finishedAt"] = self._bench.stamp()
        if phase == "Error":
            entry["message"] = self._problem = f"pod {pod_name} was deleted"
        self.nodes[name] = entry
        return phase

    def _may_start(self) -> bool:
        """True if the workflow may start another pod: it is not stopped, and its parallelism allows one more."""
        limit = self.spec.get("parallelism")
        return not self._stopped and (limit is None or sum(not is_ended(pod) for pod in self._pods.values()) < limit)

    def _create(self, name: str, pod_name: str, template: Object) -> Object | None:
        try:
            pod_spec = _pod_spec(self.spec, template)
        except InputError as error:
            self._problem = str(error)
            return None
        marks = _marks(self.spec, template)
        labels = {**marks["labels"], f"{PREFIX}workflow": name_of(self.owner)}
        notes = {**marks["annotations"], f"{PREFIX}node-name": name}
        pod = self._bench.create_pod(
            self.owner,
            {"metadata": {"labels": labels, "annotations": notes}, "spec": pod_spec},
            name=pod_name,
            labels={f"{PREFIX}completed": "false"},
            reference=as_owner_reference(self.owner),
        )
        if pod is not None:
            self._pods[pod_name] = pod
        return pod


def _pod_spec(spec: Object, template: Object) -> Object:
    """The spec of a template's pod. ``spec``: the workflow's. Raises InputError."""
    if "containerSet" in template:
        containers = list(template["containerSet"].get("containers") or ())
    else:
        given = template.get("container") or template.get("script") or {}
        containers = [{**{key: value for key, value in given.items() if key != "source"}, "name": "main"}]
    containers += template.get("sidecars") or ()
    result: Object = {
        "restartPolicy": "Never",
        **{key: spec[key] for key in _OF_WORKFLOW if key in spec},
        **{key: template[key] for key in _OF_POD if key in template},
        "containers": [{"image": "", **container} for container in containers],
    }
    for field in ("initContainers", "volumes"):
        if both := [*(spec.get(field) or () if field == "volumes" else ()), *(template.get(field) or ())]:
            result[field] = both
    if named := template.get("priorityClassName") or spec.get("podPriorityClassName"):
        result["priorityClassName"] = named
    if (deadline := _count(template.get("activeDeadlineSeconds"))) > 0:
        result["activeDeadlineSeconds"] = deadline
    for where, patch in (
        ("spec.podSpecPatch", spec.get("podSpecPatch")),
        ("podSpecPatch", template.get("podSpecPatch")),
    ):
        if patch:
            content, _ = read_document(patch, where, "a patch of a pod's spec")
            if not isinstance(content, dict):
                raise InputError(f"{where}: is not a mapping; expected a patch of a pod's spec")
            result = strategic_patch(result, content, where)
    return result


def _count(value: Any, otherwise: int = 0) -> int:
    """A number that may be given as text."""
    return value if isinstance(value, int) else parse_count(value, otherwise)


def _runs_a_container(template: Object) -> bool:
    return any(template.get(kind) is not None for kind in ("container", "script", "containerSet"))


def _pod_name(workflow: str, node: str, template: str) -> str:
    if workflow == node:
        return workflow
    prefix = f"{workflow}-{template}" if template else workflow
    digest = 2166136261  # FNV-1a of 32 bits
    for byte in node.encode():
        digest = (digest ^ byte) * 16777619 % 2**32
    return f"{prefix[:_LONGEST_PREFIX]}-{digest}"


def _parameters(holder: Any) -> dict[str, Any]:
    """The values of parameters that have one."""
    entries = (holder or {}).get("parameters") or ()
    return {one["name"]: one.get("value", one.get("default")) for one in entries if {"value", "default"} & one.keys()}


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A value with its tags (``{{inputs.parameters.size}}``) filled in; a tag that is not known stays."""

    def fill(match: re.Match[str]) -> str:
        if match[1] not in values:
            return match[0]
        found = values[match[1]]
        return json.dumps(found if isinstance(found, str) else json.dumps(found))[1:-1]

    text = json.dumps(value)
    return json.loads(_TAG.sub(fill, text)) if "{{" in text else value


def _expanded(name: str, step: Object) -> Iterator[tuple[str, Object, dict[str, Any]]]:
    """The nodes of a step: one, or one for each of its items. Name, step, arguments."""
    items: Sequence[Any] | None = step.get("withItems")
    if items is None and step.get("withSequence"):
        sequence = step["withSequence"]
        first = _count(sequence.get("start"))
        count = _count(sequence["count"]) if "count" in sequence else _count(sequence.get("end")) - first + 1
        items = list(map(str, range(first, first + max(count, 0))))
    if items is None and step.get("withParam"):
        try:
            found = json.loads(step["withParam"])
        except ValueError:
            found = None  # what an earlier step has put out is not known here
        items = found if isinstance(found, list) else None
    if items is None:
        yield name, step, _parameters(step.get("arguments"))
        return
    for place, item in enumerate(items):
        values = {"item": item} | (
            {f"item.{key}": value for key, value in item.items()} if isinstance(item, dict) else {}
        )
        shown = item if isinstance(item, str) else json.dumps(item)
        yield f"{name}({place}:{shown})", step, _parameters(_filled(step.get("arguments"), values))


def _tolerated(step: Object, phase: str) -> bool:
    return bool((step.get("continueOn") or {}).get("failed" if phase == "Failed" else "error"))


# --- dependencies of a DAG --------------------------------------------------------------------------------------------

_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Z][A-Za-z]*)?")
_RESULTS: Mapping[str, Callable[[str], bool]] = {
    "": lambda phase: phase in ("Succeeded", "Skipped"),
    "Succeeded": lambda phase: phase == "Succeeded",
    "Failed": lambda phase: phase == "Failed",
    "Errored": lambda phase: phase == "Error",
    "Skipped": lambda phase: phase == "Skipped",
    "Omitted": lambda phase: phase == "Omitted",
    "Daemoned": lambda phase: False,
}


def _needs(task: Object, tasks: Mapping[str, Object]) -> set[str]:
    """The tasks that a task depends on."""
    named = {match[0].partition(".")[0] for match in _NAME.finditer(task.get("depends") or "")}
    return {name for name in {*named, *(task.get("dependencies") or ())} if name in tasks}


def _holds(task: Object, phases: Mapping[str, str]) -> bool:
    """Whether the dependencies of a task came out as it wants. Raises InputError for a text that is no expression."""
    wanted = task.get("depends")
    if not wanted:
        return all(_RESULTS[""](phases[name]) for name in task.get("dependencies") or () if name in phases)
    facts: list[bool] = []

    def fact(match: re.Match[str]) -> str:
        name, _, result = match[0].partition(".")
        if name not in phases or result not in _RESULTS:
            raise InputError(f"there is no {match[0]!r:.80}; expected tasks, such as A.Succeeded")
        facts.append(_RESULTS[result](phases[name]))
        return f"_{len(facts) - 1}"

    text = _NAME.sub(fact, wanted).replace("&&", " and ").replace("||", " or ").replace("!", " not ")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, facts)
    except (SyntaxError, ValueError, RecursionError):
        raise InputError(f"{wanted!r:.200} is no expression of tasks, such as A.Succeeded && !B") from None


def _value(tree: ast.expr, facts: Sequence[bool]) -> bool:
    match tree:
        case ast.BoolOp(op=op, values=values):
            found = [_value(value, facts) for value in values]
            return all(found) if isinstance(op, ast.And) else any(found)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, facts)
        case ast.Name(id=name):
            return facts[int(name[1:])]
    raise ValueError
