"""Tests whose work needs operators."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


@pytest.mark.slow
def test_work_of_an_operator_is_skipped_on_a_control_plane_without_it(pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kailab_operator("kuberay", "trainer")
        def test_it(lab): pass

        @pytest.mark.kailab_operator("ray")
        def test_no_such(lab): pass
        """
    )
    pytester.runpytest_subprocess("--kailab-evidence=off", "-k", "test_it").assert_outcomes(passed=1)
    beside = ("--kailab-evidence=off", "--kailab-backend=controlplane", "--kailab-with=jobset", "-rs")
    result = pytester.runpytest_subprocess(*beside)
    result.assert_outcomes(skipped=1, errors=1)
    # JobSet runs there, which the Trainer needs: it is not told again.
    result.stdout.fnmatch_lines(["*this test's work; it needs --kailab-with trainer,kuberay"])
    result.stdout.fnmatch_lines(["*marker kailab_operator: there is no operator 'ray'; there are jobset, lws*"])
