"""Webhooks of a program beside the plane, called by a URL of this machine."""

from __future__ import annotations

import base64
import http.server
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kailab.cluster.protocol import Object
from kailab.undertest.webhooks import WebhookServer, webhook_server

SERVICE = "kueue-webhook-service.kueue-system.svc"


@pytest.fixture
def server(tmp_path: Path) -> WebhookServer:
    return webhook_server(tmp_path / "certificates", 9443, SERVICE, "kueue-ca")


def configuration() -> Object:
    called = {"service": {"name": "webhook-service", "namespace": "system", "path": "/mutate-job"}}
    hooks = [
        {"name": "mjob.kb.io", "clientConfig": dict(called)},
        {"name": "mpod.kb.io", "clientConfig": dict(called), "namespaceSelector": {"matchLabels": {"a": "b"}}},
    ]
    metadata = {"name": "mutating-webhook-configuration"}
    return {"kind": "MutatingWebhookConfiguration", "metadata": metadata, "webhooks": hooks}


def test_a_configuration_calls_a_url_and_trusts_the_authority(server: WebhookServer) -> None:
    original = configuration()
    (found,) = server.called([original, {"kind": "Service"}], "kueue-", ("kube-system",))
    assert found["metadata"]["name"] == "kueue-mutating-webhook-configuration"
    first, second = found["webhooks"]
    assert first["clientConfig"] == {
        "url": "https://127.0.0.1:9443/mutate-job",
        "caBundle": base64.b64encode((server.folder / "ca.crt").read_bytes()).decode(),
    }
    elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
    assert first["namespaceSelector"] == {"matchExpressions": [elsewhere]}
    assert second["namespaceSelector"] == {"matchLabels": {"a": "b"}, "matchExpressions": [elsewhere]}
    assert original == configuration()


def test_a_definition_is_converted_by_it(server: WebhookServer) -> None:
    crd: Object = {"kind": "CustomResourceDefinition", "spec": {"group": "x"}}
    conversion = server.converting(crd)["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"]["url"] == "https://127.0.0.1:9443/convert"
    assert conversion["webhook"]["conversionReviewVersions"] == ["v1"]
    assert crd == {"kind": "CustomResourceDefinition", "spec": {"group": "x"}}


def test_the_secret_has_the_files_of_the_folder(server: WebhookServer) -> None:
    secret = server.secret("kueue-system", "kueue-webhook-server-cert")
    assert secret["metadata"] == {"name": "kueue-webhook-server-cert", "namespace": "kueue-system"}
    assert {name: base64.b64decode(text) for name, text in secret["data"].items()} == server.files


def test_the_authority_is_as_cert_controller_wants_it(server: WebhookServer) -> None:
    key = server.files["ca.key"]
    assert key.startswith(b"-----BEGIN RSA PRIVATE KEY-----")  # PKCS#1
    assert isinstance(load_pem_private_key(key, None), RSAPrivateKey)
    authority = x509.load_pem_x509_certificate(server.files["ca.crt"])
    names = authority.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["kueue-ca"]
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.parametrize("host", ["127.0.0.1", SERVICE])
def test_a_client_that_trusts_the_bundle_can_call_the_server(tmp_path: Path, server: WebhookServer, host: str) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    there = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(server.folder / "tls.crt", server.folder / "tls.key")
    there.socket = shown.wrap_socket(there.socket, server_side=True)
    thread = threading.Thread(target=there.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        trusted = ssl.create_default_context(cafile=str(server.folder / "ca.crt"))
        address = ("127.0.0.1", there.server_port)
        with (
            socket.create_connection(address, timeout=60) as plain,
            trusted.wrap_socket(plain, server_hostname=host) as connection,
        ):
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b"204" in connection.recv(100)
    finally:
        there.shutdown()
        there.server_close()
        thread.join()
