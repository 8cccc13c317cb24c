"""A program that stands in for an operator: it takes the operator's configuration file, admits and converts whatever it is asked
about, and prints what that was. It refuses objects whose names have ``refused`` in them.

Run by the Python that runs the tests; ``program`` gives its text with that in its first line.
"""

from __future__ import annotations

import http.server
import json
import ssl
import sys
import threading
from pathlib import Path
from typing import Any

import yaml


def program() -> bytes:
    return f"#!{sys.executable}\n".encode() + Path(__file__).read_bytes()


class Answers(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: the log is for what was asked."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.answer(asked["request"], self.path.partition("?")[0])
        said = json.dumps({"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def answer(self, request: dict[str, Any], path: str) -> dict[str, Any]:
        if path == "/convert":
            wanted = request["desiredAPIVersion"]
            converted = [{**one, "apiVersion": wanted} for one in request["objects"]]
            return {"uid": request["uid"], "convertedObjects": converted, "result": {"status": "Success"}}
        name = request.get("name", "")
        print(f"asked {path} {request['kind']['kind']} in {request.get('namespace', '')}: {name}", flush=True)
        return {"uid": request["uid"], "allowed": "refused" not in name}


def serve(address: str, port: str | int, folder: str = "") -> None:
    server = http.server.ThreadingHTTPServer((address, int(port)), Answers)
    if folder:
        shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        shown.load_cert_chain(f"{folder}/tls.crt", f"{folder}/tls.key")
        server.socket = shown.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever).start()


if __name__ == "__main__":
    given = next(one for one in sys.argv if one.startswith("--config="))
    config = yaml.safe_load(Path(given.partition("=")[2]).read_text())
    serve(config["webhook"]["host"], config["webhook"]["port"], config["webhook"]["certDir"])
    serve(*config["health"]["healthProbeBindAddress"].split(":"))
