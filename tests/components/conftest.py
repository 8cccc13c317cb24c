"""Published programs: a real HTTP server with the layout of the official ones, and ways to misbehave."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import re
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kailab.components import FOLDER, ComponentCache, DownloadSources, Pin, pins
from kailab.components.pins import KUBERNETES_PROGRAMS, this_machine

SAYS = {"etcd": "etcd Version: {bare}", "kwok": "kwok version {version} go1.0"}
PADDING = 3_000_000


def program(pin: Pin, version: str = "") -> bytes:
    """One that runs, and says which it is; some megabytes long."""
    version = version or pin.version
    said = SAYS.get(pin.name, "Kubernetes {version}").format(version=version, bare=version.removeprefix("v"))
    noise = hashlib.shake_256(pin.name.encode()).hexdigest(PADDING // 2)
    return f"#!/bin/sh\necho '{said}'\nexit 0\n{noise}\n".encode()


@dataclass
class Published:
    """``files``: by path. ``asked``: (path, Range) of each request. ``break_after``: for a path, how many bytes are sent before
    the connection is cut, one for each request; ``busy``: how often 503 is said; ``ranges``: whether Range is heeded."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    break_after: dict[str, list[int]] = field(default_factory=dict)
    busy: dict[str, int] = field(default_factory=dict)
    ranges: bool = True
    url: str = ""

    def publish(self, pin: Pin) -> str:
        """As the projects do. Returns the path of the file that is to be downloaded."""
        machine, content = this_machine(), program(pin)
        if pin.name in KUBERNETES_PROGRAMS:
            path = f"/release/{pin.version}/bin/{machine.system}/{machine.architecture}/{pin.name}"
            self.files[path] = content
            self.files[f"{path}.sha256"] = hashlib.sha256(content).hexdigest().encode()
        elif pin.name == "etcd":
            stem = f"etcd-{pin.version}-{machine.system}-{machine.architecture}"
            base = f"/etcd-io/etcd/releases/download/{pin.version}"
            path = f"{base}/{stem}.tar.gz"
            self.files[path] = packed(f"{stem}/etcd", content)
            sums = f"{'0' * 64}  other.zip\n{hashlib.sha256(self.files[path]).hexdigest()}  {stem}.tar.gz\n"
            self.files[f"{base}/SHA256SUMS"] = sums.encode()
        else:
            name = f"kwok-{machine.system}-{machine.architecture}"
            path = f"/kubernetes-sigs/kwok/releases/download/{pin.version}/{name}"
            self.files[path] = content
            assets = [
                {"name": "other", "digest": None},
                {"name": name, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}"},
            ]
            self.files[f"/repos/kubernetes-sigs/kwok/releases/tags/{pin.version}"] = json.dumps(
                {"assets": assets}
            ).encode()
        return path

    def publish_all(self) -> dict[str, str]:
        return {pin.name: self.publish(pin) for pin in pins()}

    @property
    def sources(self) -> DownloadSources:
        return DownloadSources(self.url, self.url, self.url)


def packed(name: str, content: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", compresslevel=1) as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


@pytest.fixture
def published() -> Iterator[Published]:
    state = Published()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            wanted = self.headers.get("Range") or ""
            state.asked.append((self.path, wanted))
            if state.busy.get(self.path, 0) > 0:
                state.busy[self.path] -= 1
                self.send_error(503)
                return
            content = state.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            total, start = len(content), 0
            if state.ranges and (found := re.fullmatch(r"bytes=(\d+)-", wanted)):
                start = int(found[1])
                if start >= total:
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(total - start))
            self.end_headers()
            if cuts := state.break_after.get(self.path):
                content = content[: start + cuts.pop(0)]
                self.close_connection = True
            self.wfile.write(content[start:])

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No long pauses between tries, and no folder of the user's own."""
    monkeypatch.setattr("kailab.components.download._FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr("kailab.components.download._LONGEST_WAIT_SECONDS", 0.02)
    monkeypatch.delenv(FOLDER, raising=False)


@pytest.fixture
def cache(tmp_path: Path) -> ComponentCache:
    return ComponentCache(tmp_path / "cache")


@pytest.fixture
def no_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Go; the rest of its tools are there."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
