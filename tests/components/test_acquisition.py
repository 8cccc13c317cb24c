"""Programs downloaded from a real server, copied, and found again."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kailab.components import (
    FOLDER,
    AcquisitionMethod,
    ComponentCache,
    DamagedComponent,
    DownloadSources,
    MissingComponents,
    WrongChecksum,
    WrongComponent,
    find_components,
    get_components,
    pins,
)
from kailab.components.cache import sha256_of
from kailab.components.lookup import inventory, verified_inventory
from kailab.components.pins import PROGRAMS
from kailab.errors import InputError, StateError

if TYPE_CHECKING:
    from tests.components.conftest import Published

APISERVER = next(pin for pin in pins() if pin.name == "kube-apiserver")


def test_the_whole_set_is_downloaded_and_found(published: Published, cache: ComponentCache) -> None:
    paths = published.publish_all()
    with pytest.raises(MissingComponents, match=r"kailab components get --kubernetes v1\.35\.4") as missing:
        find_components(cache=cache)
    assert [pin.name for pin in missing.value.pins] == list(PROGRAMS)
    told: list[str] = []
    progress: dict[str, tuple[int, int]] = {}
    got = get_components(
        cache=cache,
        sources=published.sources,
        tell=told.append,
        progress=lambda what, done, total: progress.__setitem__(what, (done, total)),
    )
    assert set(got.paths) == set(PROGRAMS)
    for name, path in paths.items():
        size = len(published.files[path])
        assert progress[path.rpartition("/")[2]] == (size, size)
        assert got.path(name).stat().st_mode & stat.S_IXUSR
        assert any(line.startswith(f"{name} v") and path in line for line in told)
    assert find_components(cache=cache) == got
    assert {item.state for item in verified_inventory(cache=cache)} == {"ok"}
    assert not [path for path in cache.root.rglob("*") if path.name.endswith((".part", ".arriving", ".unpacked"))]
    published.asked.clear()
    get_components(cache=cache, sources=published.sources)
    assert published.asked == []


def test_versions_live_side_by_side(published: Published, cache: ComponentCache) -> None:
    published.publish_all()
    for pin in pins("1.34"):
        published.publish(pin)
    get_components(cache=cache, sources=published.sources)
    older = get_components("1.34", cache=cache, sources=published.sources)
    assert older.kubernetes == "v1.34.4"
    assert "v1.34.4" in older.path("kubectl").parts
    assert find_components(cache=cache).path("etcd") == older.path("etcd")


@pytest.mark.parametrize("ranges", [True, False], ids=["resumed", "from the start where the server can't resume"])
def test_a_transfer_that_breaks_off_goes_on(published: Published, cache: ComponentCache, ranges: bool) -> None:
    path = published.publish_all()["kube-apiserver"]
    published.ranges = ranges
    published.break_after[path] = [1_000_000, 500_000]
    get_components(cache=cache, sources=published.sources)
    assert [start for asked, start in published.asked if asked == path] == (
        ["", "bytes=1000000-", "bytes=1500000-"] if ranges else ["", "bytes=1000000-", "bytes=500000-"]
    )
    assert sha256_of(cache.path(APISERVER)) == published.files[f"{path}.sha256"].decode()


def test_a_later_command_goes_on_where_one_was_killed(published: Published, cache: ComponentCache) -> None:
    path = published.publish_all()["kube-apiserver"]
    part = cache.folder(APISERVER) / "kube-apiserver.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(published.files[path][:123_456])
    get_components(cache=cache, sources=published.sources)
    assert (path, "bytes=123456-") in published.asked


@pytest.mark.parametrize("length", [100_000, 9_000_000], ids=["shorter", "longer than what is published"])
def test_a_part_of_something_else_is_thrown_away(published: Published, cache: ComponentCache, length: int) -> None:
    path = published.publish_all()["kube-apiserver"]
    part = cache.folder(APISERVER) / "kube-apiserver.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * length)
    get_components(cache=cache, sources=published.sources)
    assert sha256_of(cache.path(APISERVER)) == published.files[f"{path}.sha256"].decode()


def test_what_is_not_as_published_is_never_kept(published: Published, cache: ComponentCache, tmp_path: Path) -> None:
    path = published.publish_all()["kube-apiserver"]
    ran = tmp_path / "it ran"
    published.files[path] = f"#!/bin/sh\ntouch '{ran}'\necho Kubernetes v1.35.4\n".encode()
    with pytest.raises(WrongChecksum, match="it was removed and not run"):
        get_components(cache=cache, sources=published.sources)
    assert not ran.exists()
    assert not cache.path(APISERVER).exists()
    assert not (cache.folder(APISERVER) / "kube-apiserver.part").exists()


def test_another_version_than_was_promised(published: Published, cache: ComponentCache) -> None:
    path = published.publish_all()["kube-apiserver"]
    older = published.publish(next(pin for pin in pins("1.34") if pin.name == "kube-apiserver"))
    for ending in ("", ".sha256"):
        published.files[path + ending] = published.files[older + ending]
    with pytest.raises(WrongComponent, match=r"it is kube-apiserver v1\.34\.4; v1\.35\.4 was expected"):
        get_components(cache=cache, sources=published.sources)
    assert cache.checked(APISERVER) is None


def test_a_busy_server_is_asked_again(published: Published, cache: ComponentCache) -> None:
    path = published.publish_all()["kube-apiserver"]
    published.busy = {path: 2, f"{path}.sha256": 2}
    get_components(cache=cache, sources=published.sources)
    assert [asked for asked, _ in published.asked].count(path) == 3


@pytest.mark.usefixtures("no_go")
def test_what_is_not_published_is_told_one_by_one(published: Published, cache: ComponentCache) -> None:
    paths = published.publish_all()
    del published.files[paths["kubectl"]]
    release = next(path for path in published.files if path.startswith("/repos/"))
    published.files[release] = published.files[release].replace(b"sha256:", b"md5:")
    with pytest.raises(MissingComponents) as missing:
        get_components(cache=cache, sources=published.sources)
    assert [pin.name for pin in missing.value.pins] == ["kubectl", "kwok"]
    lines = str(missing.value).splitlines()
    assert "404" in lines[0]
    assert lines[0].endswith("it can't be built: there is no Go here (`go` in PATH)")
    assert "no sha256 of kwok-" in lines[1]
    assert "--from FOLDER" in lines[2]
    # The rest is here, and is not acquired again.
    assert cache.checked(APISERVER)


@pytest.mark.usefixtures("no_go")
def test_a_host_that_cannot_be_reached_is_tried_once(published: Published, cache: ComponentCache) -> None:
    published.publish_all()
    nowhere = "http://127.0.0.1:9"
    told: list[str] = []
    with pytest.raises(MissingComponents) as missing:
        get_components(cache=cache, sources=DownloadSources(nowhere, published.url, published.url), tell=told.append)
    assert [pin.project for pin in missing.value.pins] == ["kubernetes"] * 4
    assert str(missing.value).count("127.0.0.1 can't be reached: Connection refused") == 4
    assert sum(nowhere in line for line in told) == 1
    with pytest.raises(MissingComponents, match="can't be reached: Connection refused"):
        get_components(way=AcquisitionMethod.download, cache=cache, sources=DownloadSources(nowhere, nowhere, nowhere))


def test_what_changed_in_the_cache_is_not_run(published: Published, cache: ComponentCache) -> None:
    published.publish_all()
    get_components(cache=cache, sources=published.sources)
    path = cache.path(APISERVER)
    times = path.stat()
    with open(path, "r+b") as file:
        file.seek(1_000_000)
        file.write(b"!")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    for _ in range(2):
        with pytest.raises(DamagedComponent, match=r"it will not be run; get it again with `kailab components get"):
            find_components(cache=cache)
    assert {item.name: item.state for item in inventory(cache=cache)}["kube-apiserver"] == "damaged"
    assert [item.name for item in verified_inventory(cache=cache) if item.state != "ok"] == ["kube-apiserver"]
    told: list[str] = []
    get_components(cache=cache, sources=published.sources, tell=told.append)
    assert "acquiring it again" not in told[1]
    assert any("acquiring it again" in line for line in told)
    assert find_components(cache=cache)


def test_a_file_that_nobody_put_there_does_not_count(cache: ComponentCache) -> None:
    cache.path(APISERVER).parent.mkdir(parents=True)
    cache.path(APISERVER).write_text("#!/bin/sh\n")
    assert cache.checked(APISERVER) is None
    (cache.folder(APISERVER) / "manifest.json").write_text("{ damaged")
    with pytest.raises(MissingComponents, match="kube-apiserver"):
        find_components(cache=cache)


def test_programs_are_adopted_from_a_folder(published: Published, cache: ComponentCache, tmp_path: Path) -> None:
    published.publish_all()
    first = get_components(cache=ComponentCache(tmp_path / "first"), sources=published.sources)
    mine = tmp_path / "mine"
    mine.mkdir()
    for name, path in first.paths.items():
        (mine / name).write_bytes(path.read_bytes())
        (mine / name).chmod(0o755)
    got = get_components(adopt=mine, cache=cache, sources=DownloadSources("http://127.0.0.1:9"))
    assert {entry.how for pin in pins() if (entry := cache.entry(pin))} == {"adopted"}
    assert sha256_of(got.path("etcd")) == sha256_of(mine / "etcd")
    (mine / "kwok").write_text("#!/bin/sh\necho kwok version v0.1.0\n")
    with pytest.raises(WrongComponent, match=r"it is kwok v0\.1\.0; v0\.7\.0 was expected"):
        get_components(adopt=mine, again=True, cache=cache)
    (mine / "kwok").write_bytes(b"\x7fELF but not for here")
    with pytest.raises(WrongComponent, match="does not run here"):
        get_components(adopt=mine, again=True, cache=cache)
    (mine / "kwok").unlink()
    with pytest.raises(MissingComponents, match="kwok: no such file"):
        get_components(adopt=mine, again=True, cache=cache)


def test_a_folder_of_ones_own(published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published.publish_all()
    first = get_components(cache=ComponentCache(tmp_path / "first"), sources=published.sources)
    mine = tmp_path / "mine"
    mine.mkdir()
    for name, path in first.paths.items():
        (mine / name).symlink_to(path)
    assert find_components(folder=mine).path("kwok") == mine / "kwok"
    monkeypatch.setenv(FOLDER, str(mine))
    assert find_components("v1.35").kubernetes == "v1.35.4"
    with pytest.raises(InputError, match=r"its kube-apiserver is v1\.35\.4; v1\.34\.4 was asked for"):
        find_components("1.34")
    (mine / "etcd").unlink()
    with pytest.raises(MissingComponents, match="not in this folder, or not executable: etcd"):
        find_components()
    monkeypatch.setenv(FOLDER, str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="no such folder"):
        find_components()


def test_a_cache_that_cannot_be_written(published: Published, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="the cache can't be written"):
        get_components(cache=ComponentCache(tmp_path / "file"), sources=published.sources)


def test_releases_that_are_not_known() -> None:
    for wrong in ("1.2", "v1.35.99", "latest", "v1.35.4; rm"):
        with pytest.raises(InputError, match=r"v1\.34\.4, v1\.35\.4, v1\.36\.3"):
            pins(wrong)
    assert pins("1.36")[1].version == "v1.36.3"


GETS = """
import sys
from pathlib import Path
from kailab.components import ComponentCache, DownloadSources, get_components
url = sys.argv[2]
get_components(cache=ComponentCache(Path(sys.argv[1])), sources=DownloadSources(url, url, url), tell=print)
"""


def test_two_processes_get_each_program_once(published: Published, cache: ComponentCache) -> None:
    paths = published.publish_all()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", GETS, str(cache.root), published.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for _ in range(3)
    ]
    for one in started:
        said, _ = one.communicate(timeout=600)
        assert one.returncode == 0, said.decode()
    asked = [path for path, _ in published.asked]
    assert {name: asked.count(path) for name, path in paths.items()} == dict.fromkeys(PROGRAMS, 1)
    assert {item.state for item in verified_inventory(cache=cache)} == {"ok"}
