"""The kinds of objects that kailab knows, one module per API or group of similar kinds. Each module lists its kinds as ``KINDS``.

To add a kind, add a module here (docs/design.md, "The house"); ``kailab.model.kinds`` loads every module of this package. A module may also
have the controller and the grouping of its kinds. Large ones are in ``kailab.workloads`` and ``kailab.grouping.families`` and are named as
``"module:name"``, so that a command that only shows pods does not load them.
"""
