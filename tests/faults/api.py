"""The API server as anybody else sees it: plain requests, no cache, nothing of kailab between."""

from __future__ import annotations

import json
from typing import Any

import tenacity
import urllib3

from kailab.cluster.controlplane import ControlPlane

Obj = dict[str, Any]

PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Namespace": "/api/v1/namespaces",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "Queue": "/apis/scheduling.run.ai/v2/queues",
    "PodGroup": "/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups",
}
ALL_PODS = "/api/v1/pods"
MERGE = "application/merge-patch+json"


class Refused(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"HTTP {code}: {text[:500]}")
        self.code = code


class Api:
    """Requests with and for plain dicts. An answer that is no success raises Refused."""

    def __init__(self, plane: ControlPlane) -> None:
        pki = plane.folder / "pki"
        self._server = plane.server
        self._pool = urllib3.PoolManager(
            ca_certs=str(pki / "ca.crt"),
            cert_file=str(pki / "admin.crt"),
            key_file=str(pki / "admin.key"),
            retries=False,
        )

    def text(self, path: str, method: str = "GET", body: Any = None, content: str = "application/json") -> str:
        answer = self._pool.request(
            method,
            self._server + path,
            body=None if body is None else json.dumps(body),
            headers={"Accept": "application/json", "Content-Type": content},
            timeout=60.0,
        )
        text = answer.data.decode()
        if answer.status >= 300:
            raise Refused(answer.status, text)
        return text

    def _call(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Obj:
        found: Obj = json.loads(self.text(path, method, body, content))
        return found

    def list(self, kind: str, namespace: str = "default") -> list[Obj]:
        return self._call("GET", PATHS[kind].format(namespace))["items"]

    def all_pods(self) -> list[Obj]:
        return self._call("GET", ALL_PODS)["items"]

    def get(self, kind: str, name: str, namespace: str = "default") -> Obj:
        return self._call("GET", f"{PATHS[kind].format(namespace)}/{name}")

    def create(self, *objects: Obj) -> None:
        for obj in objects:
            namespace = obj["metadata"].get("namespace", "default")
            self._call("POST", PATHS[obj["kind"]].format(namespace), obj)

    def patch(self, kind: str, name: str, patch: Obj, namespace: str = "default") -> Obj:
        return self._call("PATCH", f"{PATHS[kind].format(namespace)}/{name}", patch, MERGE)

    def delete(self, kind: str, name: str, namespace: str = "default", **options: Any) -> None:
        try:
            self._call("DELETE", f"{PATHS[kind].format(namespace)}/{name}", options or None)
        except Refused as error:
            if error.code != 404:
                raise

    def delete_all(self, kind: str, namespace: str = "default", **options: Any) -> None:
        self._call("DELETE", PATHS[kind].format(namespace), {"propagationPolicy": "Background", **options})


AWAY = (urllib3.exceptions.HTTPError, OSError)


def patiently() -> tenacity.Retrying:
    """For requests of a test's own while its fault is under way."""

    def passing(error: BaseException) -> bool:
        if isinstance(error, Refused):
            return error.code in (429, 500, 503, 504)
        return isinstance(error, AWAY)

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(passing),
        wait=tenacity.wait_fixed(0.2),
        stop=tenacity.stop_after_delay(300),
        reraise=True,
    )
