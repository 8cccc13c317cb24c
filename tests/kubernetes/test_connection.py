"""Kubeconfigs that can't be used: each a message that says what and where, soon."""

import json
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import yaml

from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.kubernetes.apiclient.transport import Transport
from kailab.errors import ConnectError, InputError


def written(path, **changes):
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **changes,
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_one_that_is_not_there(tmp_path):
    with pytest.raises(ConnectError, match="no such kubeconfig"):
        Connection.from_kubeconfig(tmp_path / "nothing")


@pytest.mark.parametrize("text", ["{", "[]", "clusters: {}", "clusters: []"])
def test_one_that_is_none(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match="config: no"):
        Connection.from_kubeconfig(path)


def test_a_context_that_is_not_there_is_told_with_those_that_are(tmp_path):
    with pytest.raises(InputError, match="no context 'y'; there are: x"):
        Connection.from_kubeconfig(written(tmp_path / "config"), "y")


def test_one_without_a_current_context(tmp_path):
    path = written(tmp_path / "config", **{"current-context": ""})
    with pytest.raises(InputError, match="choose one with --context: x"):
        Connection.from_kubeconfig(path)
    assert Connection.from_kubeconfig(path, "x").server == "https://127.0.0.1:1"


def test_a_context_that_names_a_cluster_that_is_not_there(tmp_path):
    contexts = [{"name": "x", "context": {"cluster": "other", "user": "u"}}]
    with pytest.raises(InputError, match="context 'x'"):
        Connection.from_kubeconfig(written(tmp_path / "config", contexts=contexts))


def test_certificates_that_cannot_be_read(tmp_path):
    clusters = [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": "/not/there"}}]
    with pytest.raises(InputError, match="not/there"):
        Connection.from_kubeconfig(written(tmp_path / "config", clusters=clusters))


def test_a_server_that_does_not_answer(tmp_path):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, and nobody listens
        server = f"https://127.0.0.1:{held.getsockname()[1]}"
        clusters = [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}]
        connection = Connection.from_kubeconfig(written(tmp_path / "config", clusters=clusters))
        with pytest.raises(ConnectError, match=f"{server}.*no Kubernetes API answers there"):
            KubernetesCluster(connection)


@pytest.mark.parametrize("refusal", [
    "failed to create typed patch object (/v1, Kind=Pod): .spec.x: field not declared",
    "failed to convert new object (default/a; /v1, Kind=Pod) to proper version: quantities must match",
])  # fmt: skip
def test_an_apply_that_does_not_fit_the_schema_is_sent_once(tmp_path, refusal):
    """A server answers it with code 500, which is sent again otherwise."""
    sent = []

    class Answers(BaseHTTPRequestHandler):
        def do_PATCH(self):
            sent.append(self.path)
            self.send_response(500)
            self.end_headers()
            self.wfile.write(json.dumps({"message": refusal}).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        clusters = [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}]
        transport = Transport(Connection.from_kubeconfig(written(tmp_path / "config", clusters=clusters)))
        answer = transport.call(transport.request("PATCH", "/api/v1/namespaces/default/pods/a", b"{}"))
        transport.close()
        server.shutdown()
    assert (answer.code, answer.tries, len(sent)) == (500, 1, 1)


@pytest.mark.slow
def test_a_server_that_does_not_know_the_user(tmp_path, kubeconfig):
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": "expired"}}]
    path = tmp_path / "stranger"
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(ConnectError, match="does not accept the credentials"):
        KubernetesCluster(Connection.from_kubeconfig(path))


@pytest.mark.slow
def test_a_server_with_another_authority(tmp_path, kubeconfig):
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    for key in [key for key in cluster if key.startswith("certificate-authority")]:
        del cluster[key]
    path = tmp_path / "untrusting"
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(ConnectError, match="certificate"):
        KubernetesCluster(Connection.from_kubeconfig(path))
