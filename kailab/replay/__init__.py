"""Replay traces of real clusters through a lab in virtual time.

A replay passes through these modules:

- ``readers`` and ``trace`` read a trace file into ``job.TraceJob`` records in order of arrival.
- ``fleets``, ``queues`` and ``policies`` make the fleet, the queues and the scheduler configuration; ``plan`` holds
  them together.
- ``run`` opens the lab and drives it. ``session`` submits jobs (``manifests``), follows their pods and books them in
  ``accounts``.
- ``sampling`` measures fairness, fragmentation and metrics while the replay runs; ``resume_file`` saves it for
  ``--resume``.
- ``costs``, ``summary``, ``tables``, ``plotting`` and ``evidence`` turn the completed replay into results.
- ``clusters`` replays one trace over several clusters with a dispatcher above them.
- ``trace_recorder`` does the reverse: it records a running cluster as a trace.
"""
