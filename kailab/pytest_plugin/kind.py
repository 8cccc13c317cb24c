"""The fixture ``kailab``: labs in the cluster of pytest-kind's own fixture ``kind_cluster``.

That fixture creates one cluster for the session and deletes it. Its options are completed here, so that it downloads nothing, and missing
requirements are reported before it creates anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from kailab.errors import KailabError
from kailab.pytest_plugin.fixtures import LABS, SETTINGS, LabFactory, VenuePool, uses_fixture
from kailab.pytest_plugin.settings import PluginSettings

if TYPE_CHECKING:
    from kailab.components import ComponentSet
    from kailab.lab import Lab

NAME = "kailab"
PYTEST_KIND_FIXTURE = "kind_cluster"

_COMPLETED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Complete the options of pytest-kind's fixture before it runs, if any test of the session uses a lab in its cluster."""
    if not _uses_kind_lab(item) and PYTEST_KIND_FIXTURE not in getattr(item, "fixturenames", ()):
        return
    if not item.config.stash.get(_COMPLETED, False) and any(map(_uses_kind_lab, item.session.items)):
        _complete_options(item.config)
        item.config.stash[_COMPLETED] = True


def _uses_kind_lab(item: pytest.Item) -> bool:
    return uses_fixture(item, NAME, __name__)


def _complete_options(config: pytest.Config) -> None:
    from kailab.cluster.kind.docker import check_docker, provide_image
    from kailab.cluster.kind.kind_command import check_library
    from kailab.cluster.kind.options import choose_options
    from kailab.lab.venues.contract import ignore_message

    settings, option = config.stash[SETTINGS], config.option
    try:
        check_library()
        check_docker()
        programs = _programs(settings)
        kind = Path(option.kind_bin) if option.kind_bin else None
        chosen = choose_options(kind, option.kind_image, kubernetes=programs.kubernetes)
        provide_image(chosen.image, ignore_message)
    except KailabError as error:
        _skip_or_fail(settings, str(error))
    option.kind_bin, option.kind_image = str(chosen.kind), chosen.image
    option.kind_kubectl_bin = option.kind_kubectl_bin or str(programs.path("kubectl"))


def _programs(settings: PluginSettings) -> ComponentSet:
    from kailab.components import find_components

    return find_components(settings.options["kubernetes"], settings.options["components"])


def _skip_or_fail(settings: PluginSettings, reason: str) -> NoReturn:
    text = f"no kind cluster can be created: {reason}"
    if settings.required:
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


@pytest.fixture(scope="session")
def _kind_venues(request: pytest.FixtureRequest) -> Iterator[tuple[PluginSettings, VenuePool]]:
    """pytest-kind's cluster with KWOK, as a pool of venues."""
    from kailab.cluster.kind import with_fake_nodes

    settings = request.config.stash[SETTINGS]
    kubeconfig = Path(request.getfixturevalue(PYTEST_KIND_FIXTURE).kubeconfig_path).resolve()
    options = {**settings.options, "kubeconfig": kubeconfig, "context": None}
    kind_settings = replace(settings, backend="kubeconfig", options=options)
    with with_fake_nodes(kubeconfig, _programs(settings)):
        venues = VenuePool(kind_settings)
        try:
            yield kind_settings, venues
        finally:
            venues.close()


@pytest.fixture(name=NAME)
def lab_on_kind(request: pytest.FixtureRequest, _kind_venues: tuple[PluginSettings, VenuePool]) -> Iterator[Lab]:
    """A new lab, like that of the fixture ``lab``, in the cluster of pytest-kind's ``kind_cluster``."""
    if LABS in request.node.stash:
        raise pytest.UsageError(f"{request.node.nodeid}: a test can use the fixtures `lab` or `{NAME}`, but not both")
    settings, venues = _kind_venues
    labs = LabFactory(request, settings, venues)
    request.node.stash[LABS] = labs
    try:
        yield labs(name="lab")
    finally:
        labs.close()
