"""Webhooks of a program beside the plane: certificates for its server, and manifests with its loopback address.

Projects publish webhooks for a Service in the cluster. Here the program is no pod, so the API server calls a URL, and trusts the
authority in the configuration. The API server must be a process of the same machine.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from kailab.cluster.controlplane.credentials import Authority
from kailab.cluster.controlplane.ports import LOOPBACK
from kailab.model.objects import Object, name_of
from kailab.model.private_files import make_folder, replace_file

CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class WebhookServer(NamedTuple):
    """``folder``: with ``tls.crt`` and ``tls.key``, as servers of controller-runtime expect them, and ``ca.crt`` and ``ca.key`` of the
    authority. ``port``: of the server."""

    folder: Path
    port: int

    @property
    def files(self) -> dict[str, bytes]:
        """The four files, as a Secret holds them for programs that expect one."""
        return {name: (self.folder / name).read_bytes() for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")}

    def secret(self, namespace: str, name: str) -> Object:
        """Those files as a Secret."""
        data = {file: base64.b64encode(content).decode() for file, content in self.files.items()}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "type": "Opaque",
            "data": data,
        }

    def called(self, manifests: Iterable[Object], prefix: str, skipped: Collection[str] = ()) -> list[Object]:
        """Webhook configurations that call this server: names with ``prefix``, URLs in place of services. Objects in the namespaces
        ``skipped`` are not sent to it. The originals are not changed."""
        result = [copy.deepcopy(manifest) for manifest in manifests if manifest.get("kind") in CONFIGURATIONS]
        elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": sorted(skipped)}
        for configuration in result:
            configuration["metadata"]["name"] = prefix + name_of(configuration)
            for webhook in configuration.get("webhooks", ()):
                webhook["clientConfig"] = self._client(webhook["clientConfig"]["service"].get("path", "/"))
                if skipped:
                    webhook.setdefault("namespaceSelector", {}).setdefault("matchExpressions", []).append(elsewhere)
        return result

    def converting(self, crd: Object) -> Object:
        """A definition whose versions this server converts into each other. The original is not changed."""
        webhook = {"clientConfig": self._client("/convert"), "conversionReviewVersions": ["v1"]}
        return {**crd, "spec": {**crd["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}}

    def _client(self, path: str) -> dict[str, str]:
        bundle = base64.b64encode((self.folder / "ca.crt").read_bytes()).decode()
        return {"url": f"https://{LOOPBACK}:{self.port}{path}", "caBundle": bundle}


def webhook_server(folder: Path, port: int, service: str, authority: str = "ca") -> WebhookServer:
    """Create certificates in ``folder``. ``service``: the DNS name that the program expects in its certificate; ``authority``: the name of
    the signer."""
    make_folder(folder)
    # RSA, with the name among the hosts, as cert-controller creates them, which such programs use.
    signer = Authority.made(folder, "ca", hosts=(authority,), rsa=True)
    pair = signer.issue_server(folder, "tls", (service, "localhost"))
    # A server presents its whole chain.
    replace_file(pair.certificate, pair.certificate.read_bytes() + signer.certificate.read_bytes())
    return WebhookServer(folder, port)
