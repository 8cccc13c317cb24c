"""The address and credentials of an API server: from a kubeconfig, read by the kubernetes client, or from a pod's
service account.

Nothing is written: a user's kubeconfig and current context never change.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kailab.errors import ConnectError, InputError, Where
from kailab.model.files import LARGEST_FILE, file_bytes
from kailab.model.yamltext import load_foreign

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


@dataclass
class Connection:
    """``server``: its URL. ``title``: its name in messages. ``configuration``: the kubernetes client's, which logs in."""

    server: str
    title: str
    configuration: Any = field(repr=False)

    @classmethod
    def from_kubeconfig(cls, path: str | Path, context: str | None = None) -> Connection:
        """Raises ConnectError or InputError for a file that is missing or damaged, or lacks the context."""
        from kubernetes.aio import config as loading
        from kubernetes.aio.client import Configuration

        path = Path(path).expanduser()
        chosen = _check(path, context)
        # The library keeps defaults that other users of it in this process may have changed.
        configuration = type.__call__(Configuration)

        async def load() -> None:
            # Not persisted: a renewed token is not written into the user's file.
            await loading.load_kube_config(str(path), chosen, configuration, persist_config=False)

        try:
            # In a new thread with a loop of its own, because this thread may be running a loop already.
            with ThreadPoolExecutor(1, "kubeconfig") as thread:
                thread.submit(asyncio.run, load()).result()
        except loading.ConfigException as error:
            raise InputError(f"{str(error).strip()}; check the context {chosen!r}", Where(file=str(path))) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"can't be used as a kubeconfig: {error!r}", Where(file=str(path))) from error
        configuration.host = configuration.host.rstrip("/")
        return cls(configuration.host, f"{configuration.host} (context {chosen} of {path})", configuration)

    @classmethod
    def in_cluster(cls) -> Connection:
        """The API server of the cluster in which this process runs as a pod. Raises ConnectError outside of a cluster."""
        from kubernetes.aio import config as loading
        from kubernetes.aio.client import Configuration

        configuration = type.__call__(Configuration)
        try:
            loading.load_incluster_config(client_configuration=configuration)
        except loading.ConfigException as error:
            raise ConnectError(
                f"no kubeconfig was given, and this is no pod with a service account ({error}); give --kubeconfig FILE"
            ) from error
        return cls(configuration.host, f"{configuration.host} (as this pod's service account)", configuration)

    def tls(self) -> ssl.SSLContext | None:
        """A new one at each call. Raises ConnectError for unreadable certificates."""
        from kubernetes.aio.client.rest import RESTClientObject

        if not self.server.startswith("https"):
            return None
        try:
            context: ssl.SSLContext = RESTClientObject(self.configuration).ssl_context
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ConnectError(f"{self.title}: its certificates can't be used: {error}") from error
        return context

    async def credentials(self) -> Mapping[str, str]:
        """Headers with the current credentials; tokens are renewed when they expire."""
        headers = {}
        auth = self.configuration.auth_settings()
        if asyncio.iscoroutine(auth):
            # A coroutine if the library renews tokens.
            auth = await auth
        for setting in auth.values():
            if setting.get("in") == "header" and setting.get("value"):
                headers[setting["key"]] = str(setting["value"])
        return headers


def _check(path: Path, context: str | None) -> str:
    """Report faults that the library reports less well. Returns the context to use."""
    try:
        text = file_bytes(path, LARGEST_FILE).decode("utf-8")
    except FileNotFoundError:
        raise ConnectError(f"{path}: there is no such kubeconfig") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConnectError(f"{path}: the kubeconfig can't be read: {error}") from error
    try:
        config = load_foreign(text)
    except yaml.YAMLError as error:
        raise InputError(f"no YAML: {error}", Where(file=str(path))) from error
    if not isinstance(config, dict) or not isinstance(config.get("clusters"), list) or not config["clusters"]:
        raise InputError("no kubeconfig: it names no clusters", Where(file=str(path)))
    contexts = [entry.get("name") for entry in config.get("contexts") or () if isinstance(entry, dict)]
    known = ", ".join(map(str, contexts)) or "none"
    chosen = context or config.get("current-context")
    if not chosen:
        raise InputError(f"it has no current-context; choose one with --context: {known}", Where(file=str(path)))
    if chosen not in contexts:
        raise InputError(f"there is no context {chosen!r}; there are: {known}", Where(file=str(path)))
    return str(chosen)
