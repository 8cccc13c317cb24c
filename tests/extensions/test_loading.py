"""What other distributions bring: found by their metadata, loaded by name, and each fault told with whose it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kailab import extensions
from kailab.errors import ExtensionError
from kailab.extensions import BACKENDS, POLICIES
from kailab.lab import Lab


def test_an_extension_is_found_by_name_and_loaded_when_asked(bring) -> None:
    bring(
        "acme",
        "[kailab.policies]\nquick = acme_one:Quick\n[console_scripts]\nacme = acme_one:main\n",
        acme_one="Quick = 7\n",
    )
    found = extensions.find_extension(POLICIES, "quick")
    assert found is not None
    assert (found.distribution, found.version) == ("acme", "1.2")
    assert "acme_one" not in sys.modules
    assert found.load() == 7
    assert extensions.extension_names(POLICIES) == ("quick",)
    assert extensions.find_extension(POLICIES, "slow") is None
    assert extensions.find_extension(BACKENDS, "quick") is None


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import nowhere_to_be_found\n", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("def broken(:\n", "SyntaxError: invalid syntax"),
        ("raise SystemExit(4)\n", "SystemExit: 4"),
        ("", "AttributeError: module .* has no attribute 'Quick'"),
    ],
)
def test_what_can_t_be_loaded_is_told_with_whose_it_is(bring, request, source: str, told: str) -> None:
    module = f"acme_broken_{abs(hash(request.node.name))}"
    bring("acme", f"[kailab.policies]\nquick = {module}:Quick\n", **{module: source})
    found = extensions.find_extension(POLICIES, "quick")
    assert found is not None
    with pytest.raises(ExtensionError, match=rf"kailab.policies 'quick' of acme 1.2 can't be loaded \(.*\): {told}"):
        found.load()


def test_a_name_brought_twice(bring) -> None:
    bring("acme", "[kailab.policies]\nquick = a:B\n")
    bring("other", "[kailab.policies]\nquick = c:D\n", version="3.0")
    with pytest.raises(ExtensionError, match=r"'quick' is registered by acme 1.2 and other 3.0; uninstall one of them"):
        extensions.find_extension(POLICIES, "quick")


def test_a_name_of_kailab_s_own(bring) -> None:
    bring("acme", "[kailab.policies]\npriority = a:B\n")
    with pytest.raises(ExtensionError, match=r"'priority' of acme 1.2 uses a name of kailab's own"):
        extensions.find_extension(POLICIES, "priority", built_in=("priority",))


def test_the_same_distribution_twice_on_the_path_counts_once(bring, tmp_path, monkeypatch) -> None:
    bring("acme", "[kailab.policies]\nquick = a:B\n")
    other = tmp_path / "again" / "acme-1.2.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.2\n")
    (other / "entry_points.txt").write_text("[kailab.policies]\nquick = a:B\n")
    monkeypatch.syspath_prepend(other.parent)
    assert extensions.find_extension(POLICIES, "quick") is not None


def test_a_damaged_distribution_hides_no_other(bring) -> None:
    bring("acme", "[kailab.policies]\nquick = a:B\n")
    bring("damaged", "[kailab.policies]\nno equals sign here\n")
    assert extensions.find_extension(POLICIES, "quick") is not None
    assert [(one.distribution, one.why) for one in extensions.broken_distributions()] == [
        ("damaged", extensions.broken_distributions()[0].why),
    ]
    assert extensions.broken_distributions()[0].why.startswith("its entry points can't be read: ")


def test_a_listing_tells_the_state_of_each(bring) -> None:
    bring(
        "acme",
        "[kailab.policies]\ngood = acme_two:Good\nbad = acme_two:Bad\npriority = acme_two:Good\n",
        acme_two="Good = 1\n",
    )
    states = {
        found.extension.name: found.state
        for found in extensions.check_extensions(POLICIES, lambda extension: extension.load(), ("priority",))
    }
    assert states["good"] == "ok"
    assert "has no attribute 'Bad'" in states["bad"]
    assert "a name of kailab's own" in states["priority"]


def test_looking_at_a_lab_reads_no_entry_points(tmp_path) -> None:
    """They cost time, and a damaged one is no concern of those who use none."""
    with Lab.open() as lab:
        lab.settle()
        lab.save(tmp_path / "lab")
    script = (
        "from importlib import metadata\n"
        "def none(*_, **__): raise AssertionError('entry points were read')\n"
        "metadata.distributions = none\n"
        "from kailab.cli.main import main\n"
        "main()\n"
    )
    arguments = [sys.executable, "-c", script, "get", "nodes", "--state", str(tmp_path / "lab")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6
