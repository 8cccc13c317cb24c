"""Snapshots: a cluster at one moment, in a file.

- ``taking``: a snapshot of a lab or a cluster, with KAI's settings (``kai_settings``).
- ``snapshot``: the file.
- ``anonymising``: the same with other names.
- ``opening``: a snapshot opened as an embedded lab; so can be KAI's own snapshot (``kai_archive``) and recorded evidence
  (``evidence_state``).
"""
