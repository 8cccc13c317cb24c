"""Kueue beside a control plane: one process over its API server, with its webhooks; kube-scheduler places what it admits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import yaml

from kailab.cluster.connected import connected
from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.install import CRD
from kailab.cluster.protocol import Cluster, Object
from kailab.cluster.there import is_there
from kailab.errors import KailabError
from kailab.model.private_files import write_text
from kailab.undertest import programs
from kailab.undertest.beside import AddonBeside, on_free_ports
from kailab.undertest.contract import Rest, Start, Tell
from kailab.undertest.crds import bring_in
from kailab.undertest.kueue.configuration import AUTHORITY, NAMESPACE, SECRET, SERVICE, SKIPPED, configuration
from kailab.undertest.kueue.rest import KueueRest
from kailab.undertest.programs import Program, answers
from kailab.undertest.webhooks import CONFIGURATIONS, WebhookServer, webhook_server

NAME = "kueue"
_PLACES = "kube-scheduler"
_PREFIX = "kueue-"
_CRDS = "config/components/crd"
_DEFINITIONS = f"{_CRDS}/bases/*.yaml"
_CONVERSIONS = "patches/webhook_in_"
_WEBHOOKS = "config/components/webhook/manifests.yaml"


class KueueBeside(AddonBeside):
    name = NAME

    def prepare(self, cluster: Cluster) -> None:
        """Its kinds, and its namespace. Raises MissingComponents, too."""
        definitions = self._addon.manifests.objects(_DEFINITIONS)
        # Where they are there they may have been told of the server that converts them.
        missing = [one for one in definitions if not is_there(cluster, CRD, one["metadata"]["name"])]
        bring_in(cluster, missing, "Kueue")
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})

    def start(self, cluster: Cluster, start: Start, tell: Tell = lambda _: None) -> None:
        """Returns when its webhooks answer. Raises MissingComponents, too."""
        self.prepare(cluster)
        self._plane.start_kube_scheduler()
        try:
            on_free_ports(lambda: self._run(cluster))
        except BaseException:
            self.stop()
            raise

    def _run(self, cluster: Cluster) -> None:
        webhook, health, metrics = free_ports(3)
        folder = Path(self._plane.folder).absolute() / NAME
        server = webhook_server(folder, webhook, f"{SERVICE}.{NAMESPACE}.svc", AUTHORITY)
        config = folder / "configuration.yaml"
        text = yaml.safe_dump(configuration(folder, webhook, health, metrics), sort_keys=False)
        write_text(config, text)
        for obj in self._wired(server):
            cluster.apply(obj)
        ready = answers(f"http://{LOOPBACK}:{health}/readyz")
        arguments = [f"--config={config}", "--zap-log-level=2"]
        programs.run(self._plane, [Program(NAME, self._addon.programs[NAME], arguments, health, ready)])

    def _wired(self, server: WebhookServer) -> Iterator[Object]:
        """What tells the API server how to call it, and the program that its certificates are in order."""
        manifests = self._addon.manifests
        yield server.secret(NAMESPACE, SECRET)
        # There are patches for kinds that it can't convert; those that hold are listed.
        patches = [one["path"] for one in manifests.objects(f"{_CRDS}/kustomization.yaml")[0]["patches"]]
        converted = {
            one["metadata"]["name"]
            for path in patches
            if path.startswith(_CONVERSIONS)
            for one in manifests.objects(f"{_CRDS}/{path}")
        }
        for definition in manifests.objects(_DEFINITIONS):
            if definition["metadata"]["name"] in converted:
                yield server.converting(definition)
        yield from server.called(manifests.objects(_WEBHOOKS), _PREFIX, SKIPPED)

    @property
    def names(self) -> Sequence[str]:
        return (NAME, _PLACES)

    def stop(self) -> None:
        # Before its end: until they are gone, nobody could make a Job.
        with suppress(KailabError), connected(self._plane.kubeconfig, name=NAME) as cluster:
            for kind in CONFIGURATIONS:
                for found in cluster.list(f"{kind}.admissionregistration.k8s.io"):
                    if found["metadata"]["name"].startswith(_PREFIX):
                        cluster.delete(f"{kind}.admissionregistration.k8s.io", found["metadata"]["name"])
        super().stop()

    def rest(self, cluster: Cluster) -> Rest:
        return KueueRest(self._plane, cluster, self.names)
