"""Marks with wrong names."""

from __future__ import annotations

pytest_plugins = ["pytester"]


def test_a_backend_that_does_not_exist_is_an_error_and_no_skip(pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kailab_backend("embeded")
        def test_misspelt(lab): pass

        @pytest.mark.kailab_backend("kind")
        def test_elsewhere(lab): pass
        """
    )
    result = pytester.runpytest_subprocess("--kailab-evidence=off")
    result.assert_outcomes(skipped=1, errors=1)
    result.stdout.fnmatch_lines(["*marker kailab_backend: *'embeded'*embedded*"])
