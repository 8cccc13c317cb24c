"""The settings of a real KAI in its cluster: the configuration in the ConfigMap that its scheduler mounts, and the flags in the arguments of
its Deployment. The settings are kept, their text is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.errors import ApiError
from kailab.model.labels import SCHEDULER_NAME
from kailab.model.objects import name_of, namespace_of, spec_of
from kailab.scheduler.reading.podgroups import DEFAULT_NODE_POOL
from kailab.scheduler.settings.config_file import SchedulerSettings, read_settings
from kailab.scheduler.settings.shard import with_flags

_FLAG = re.compile(r"--([a-z-]+)(?:=(.*))?", re.DOTALL)
_CONFIG = "scheduler-conf"


class KaiSettings(NamedTuple):
    """``notices``: settings that have no effect here. ``version``: of the scheduler, from its image; empty if unknown."""

    settings: SchedulerSettings
    node_pool: str = DEFAULT_NODE_POOL
    notices: tuple[str, ...] = ()
    version: str = ""


ReadObject = Callable[[str, str, str | None], Object]
"""(kind, name, namespace) -> the object. Raises ApiError."""


def settings_in(by_kind: Mapping[str, Sequence[Object]], read: ReadObject) -> KaiSettings | None:
    """The settings of the scheduler for ``schedulerName: kai-scheduler``, preferably the one of the default node pool. None if no Deployment
    runs one. Raises InputError for a configuration that can't be read."""
    candidates = [
        (flags, deployment, container)
        for deployment in by_kind.get("Deployment", ())
        for container in _containers(deployment)
        if (flags := _flags(container)) is not None and flags.get("scheduler-name", SCHEDULER_NAME) == SCHEDULER_NAME
    ]
    if not candidates:
        return None
    # KAI has a scheduler for each shard; the one of the default node pool has no label value.
    flags, deployment, container = min(
        candidates, key=lambda candidate: bool(candidate[0].get("partition-label-value"))
    )
    others = [candidate[0].get("partition-label-value", "") for candidate in candidates if candidate[0] is not flags]
    text, notices = _text(read, deployment)
    settings = read_settings(text, f"KAI's configuration, of Deployment {name_of(deployment)}")
    if others:
        notices = (
            *notices,
            f"schedulers of other node pools are left out: {', '.join(sorted(filter(None, others)))}",
        )
    settings = structs.replace(settings, engine=with_flags(settings.engine, flags))
    version = str(container.get("image", "")).rpartition(":")[2]
    return KaiSettings(
        settings,
        flags.get("partition-label-value") or DEFAULT_NODE_POOL,
        (*settings.notices, *notices),
        f"kai {version}".strip(),
    )


def _containers(deployment: Object) -> Iterable[Object]:
    template = spec_of(deployment).get("template") or {}
    return [container for container in spec_of(template).get("containers") or () if isinstance(container, dict)]


def _flags(container: Object) -> dict[str, str] | None:
    """Flags and values of a container that runs KAI's scheduler."""
    arguments = [*(container.get("command") or ()), *(container.get("args") or ())]
    flags = {match[1]: match[2] or "true" for text in arguments if (match := _FLAG.fullmatch(str(text)))}
    return flags if _CONFIG in flags else None


def _text(read: ReadObject, deployment: Object) -> tuple[str, tuple[str, ...]]:
    """The text of the configuration; empty, with a notice, if it can't be read."""
    spec = (spec_of(deployment).get("template") or {}).get("spec") or {}
    names = [
        volume["configMap"]["name"]
        for volume in spec.get("volumes") or ()
        if (volume.get("configMap") or {}).get("name")
    ]
    for name in names:
        try:
            data = read("ConfigMap", name, namespace_of(deployment) or None).get("data") or {}
        except ApiError as error:
            return "", (f"KAI's configuration can't be read, so its defaults are used: {error}",)
        for text in data.values():
            # The operator may choose any key, so look at the content.
            if "actions:" in text or "tiers:" in text:
                return text, ()
    return "", ("KAI's scheduler mounts no configuration, so its defaults are used",)
