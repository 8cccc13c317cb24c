"""Random input and the invariants that must hold.

``fuzz``: random small clusters (``random_cluster``) for the engine, and those of ``areas``, shrunk by ``shrinking`` and
written by ``case_manifest``; ``between_cycles`` changes them. ``walk``: random user steps in a lab, with objects of
``walk_objects``. ``odd_manifests``: manifests of ``odd_seeds`` with odd values, or with fields that ``drawn_objects``
draws from the tables of Kubernetes' kinds, applied to a lab.
"""
