"""What a lab loads before it does anything: a person waits for that at each command."""

from __future__ import annotations

import subprocess
import sys

import pytest

ABSENT = ("aiohttp", "kubernetes", "cryptography", "jinja2", "prometheus_client", "allure_commons")


@pytest.mark.parametrize("module", ["kailab.lab", "kailab.cli.get", "kailab.cli.explain", "kailab.cli.life"])
def test_an_embedded_lab_loads_nothing_of_real_clusters(module):
    code = f"import sys, {module}; print(*sorted({set(ABSENT)!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
