"""Version trials: run several schedulers, releases and configurations on the same exercises, scenarios and manifests,
and compare them.

- ``trial_file`` and ``definition`` make a ``matrix.Trial`` from a file or from arguments. It has a cell for each
  contender, isolation and subject.
- ``trial`` carries a trial out: ``cell_runner`` starts a process for each cell (``cell``), in which ``scenario_cell``
  or pytest runs the subject and ``recorder`` measures the labs.
- ``store`` keeps cells and their ``results`` on disk; ``leftovers`` cleans up after an interruption.
- ``outcome`` compares the results by ``differences`` and a ``baseline`` of accepted ones; ``report`` and
  ``viewer_runs`` render them.
- ``upgrade`` replaces one scheduler by another in a running cluster.
"""
