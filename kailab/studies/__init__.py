"""Studies: replay a trace under many settings, here or on Dask, and write one table of results.

- ``study_file`` reads a study's file into ``study.Study``; ``study`` also derives its runs. ``target`` parses targets
  such as ``p99 wait < 1h``.
- ``sweep`` carries a study out. ``runner`` executes the runs that are not done yet, in ``processes`` here or on Dask;
  ``study_folder`` stores each result.
- ``planning`` turns a run's options into a replay, with a resampled trace for each seed; ``measures`` replays it and
  returns its figures.
- ``optuna_search`` proposes settings instead of a grid.
- ``comparison`` judges settings by targets and compares them seed by seed; ``confidence`` has the statistics.
- ``capacity`` searches the smallest fleet that keeps the targets.
"""
