"""Snapshots: a cluster at one moment, in a file.

- ``taking``: a snapshot of a lab or a cluster, with KAI's settings (``kai_settings``).
- ``dump``: a snapshot made from the files that people have of a cluster.
- ``snapshot``: the file, and its format. A file in an older format is refused with the advice to take it again.
- ``anonymising``: a snapshot with its names replaced.
- ``opening``: a snapshot opened as an embedded lab; so can be KAI's own snapshot (``kai_archive``) and recorded evidence
  (``evidence_state``).
"""
