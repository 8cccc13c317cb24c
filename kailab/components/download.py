"""Downloads over HTTP: interrupted transfers are resumed, and files are checked against their published sha256."""

from __future__ import annotations

import http.client
import shutil
import socket
import tarfile
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar
from urllib.parse import urlsplit

import tenacity

from kailab.components.cache import sha256_of
from kailab.components.errors import DownloadFailed, Unreachable, WrongChecksum
from kailab.components.pins import PublishedFile, checksum_in
from kailab.errors import os_errors_as
from kailab.model.callbacks import Progress
from kailab.version import __version__

STALL_SECONDS = 30.0
REACH_SECONDS = 10.0
TRIES = 6
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.5, 15.0
_CHUNK = 1 << 18
_LONGEST_CHECKSUMS = 4_000_000

T = TypeVar("T")


class _Temporary(Exception):
    """A temporary error, worth a retry."""


def fetch(published: PublishedFile, folder: Path, progress: Progress) -> Path:
    """Download a program into ``folder``, continuing a partial download of an earlier call. ``progress``: gets the
    step, bytes so far and total bytes.

    Raises Unreachable within some seconds, DownloadFailed, WrongChecksum.
    """
    # Without a network, retries with pauses would take minutes for each program.
    check_reachable(published.checksums)
    # Before the file itself: a file without a published checksum is not downloaded.
    expected = _checksum(published)
    arrived = folder / f"{published.name}.part"
    resumed = arrived.exists() and arrived.stat().st_size > 0
    _transfer(published, arrived, progress)
    checksum = sha256_of(arrived)
    if checksum != expected and resumed:
        # The partial download may have been of another file.
        arrived.unlink()
        _transfer(published, arrived, progress)
        checksum = sha256_of(arrived)
    if checksum != expected:
        arrived.unlink()
        raise WrongChecksum(
            f"{published.url}: its sha256 is {checksum}, published is {expected}; it was removed and not run"
        )
    if not published.member:
        return arrived
    program = _unpacked(arrived, published, folder)
    arrived.unlink()
    return program


def check_reachable(url: str) -> None:
    """Raises Unreachable if the host can't be connected to within ``REACH_SECONDS``; looking up a name alone may take
    longer than that. With a proxy the check is left to the request."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if urllib.request.getproxies().get(parts.scheme) and not urllib.request.proxy_bypass(host):
        return
    outcome: list[str] = []

    def connect() -> None:
        try:
            port = parts.port or {"http": 80, "https": 443}[parts.scheme]
            socket.create_connection((host, port), timeout=REACH_SECONDS).close()
        except (OSError, KeyError, ValueError) as error:
            outcome.append(getattr(error, "strerror", None) or str(error))
        else:
            outcome.append("")

    # In a thread that may be left behind: nothing can interrupt a name look-up.
    thread = threading.Thread(target=connect, daemon=True, name="reach")
    thread.start()
    thread.join(REACH_SECONDS)
    if not outcome or outcome[0]:
        raise Unreachable(f"{host} can't be reached: {outcome[0] if outcome else f'no answer in {REACH_SECONDS:g} s'}")


def _checksum(published: PublishedFile) -> str:
    def read() -> str:
        with _opened(published.checksums) as answer:
            return answer.read(_LONGEST_CHECKSUMS).decode("utf-8", "replace")

    checksum = checksum_in(_retried(read, published.checksums), published.name)
    if checksum is None:
        raise DownloadFailed(f"{published.checksums}: no sha256 of {published.name} is published there")
    return checksum


def _transfer(published: PublishedFile, arrived: Path, progress: Progress) -> None:
    def go_on() -> None:
        present_bytes = arrived.stat().st_size if arrived.exists() else 0
        with _opened(published.url, present_bytes) as answer:
            goes_on = answer.status == http.client.PARTIAL_CONTENT
            if (
                present_bytes
                and goes_on
                and not (answer.headers.get("Content-Range") or "").startswith(f"bytes {present_bytes}-")
            ):
                raise _Temporary(f"{published.url}: the server sent another part than requested")
            # A server without support for ranges sends the whole file.
            present_bytes = present_bytes if goes_on else 0
            length = int(answer.headers.get("Content-Length") or 0)
            total = present_bytes + length if length else 0
            with open(arrived, "ab" if goes_on else "wb") as file:
                while chunk := answer.read(_CHUNK):
                    file.write(chunk)
                    present_bytes += len(chunk)
                    progress(published.name, present_bytes, total)
        if total and present_bytes < total:
            raise _Temporary(f"{published.url}: the transfer ended after {present_bytes} of {total} bytes")

    with os_errors_as(DownloadFailed, f"{arrived}: can't be written"):
        _retried(go_on, published.url)


def _opened(url: str, start: int = 0) -> http.client.HTTPResponse:
    """Raises _Temporary for an error that a repetition may not meet, DownloadFailed for others."""
    # With compression, offsets and length would be those of the compressed data.
    headers = {"User-Agent": f"kailab/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=STALL_SECONDS
        )
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            return _opened(url)  # the partial download does not match: request the whole file
        # Temporary states of the server. Other codes would be the same on a retry.
        if error.code in (408, 425, 429) or error.code >= 500:
            raise _Temporary(f"{url}: it says {error.code} {error.reason}") from error
        raise DownloadFailed(f"{url}: it says {error.code} {error.reason}") from error
    except ValueError as error:
        raise DownloadFailed(f"{url}: {error}") from error
    return answer


def _retried(work: Callable[[], T], url: str) -> T:
    def attempt() -> T:
        try:
            return work()
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            raise _Temporary(f"{url}: {getattr(error, 'reason', None) or error or type(error).__name__}") from error

    try:
        return tenacity.Retrying(
            stop=tenacity.stop_after_attempt(TRIES),
            wait=tenacity.wait_random_exponential(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS),
            retry=tenacity.retry_if_exception_type(_Temporary),
            reraise=True,
        )(attempt)
    except _Temporary as error:
        raise DownloadFailed(f"{error} (tried {TRIES} times)") from error


def _unpacked(archive: Path, published: PublishedFile, folder: Path) -> Path:
    """One member of an archive, under its own name."""
    program = folder / f"{published.member.rpartition('/')[2]}.unpacked"
    try:
        if archive.name.removesuffix(".part").endswith(".zip"):
            with zipfile.ZipFile(archive) as packed, packed.open(published.member) as member:
                _copy(member, program)
        else:
            with tarfile.open(archive, "r:gz") as unpacking:
                source = unpacking.extractfile(published.member)
                if source is None:
                    raise KeyError(f"{published.member} is no file")
                _copy(source, program)
    except (KeyError, tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise DownloadFailed(f"{published.url}: {published.member} can't be extracted: {error}") from error
    return program


def _copy(member: IO[bytes], program: Path) -> None:
    with open(program, "wb") as file:
        shutil.copyfileobj(member, file)
