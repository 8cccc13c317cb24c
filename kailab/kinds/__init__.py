"""kailab's own kinds: a file for each, or for kinds that are alike. Each file gives its kinds as ``KINDS``.

To add a kind is to add a file here (docs/design.md, "Layers"). It says all there is to the kind, and may hold its controller and its
grouping too; where those are large they stand in ``kailab.workloads`` and ``kailab.grouping.families`` and are named by
``"module:name"``, so that a command that only shows pods does not load them. ``kailab.model.kinds`` loads every file by its name.
"""
