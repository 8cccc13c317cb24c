"""Finders of causes: functions that take a waiting group and yield refusals. ``kailab.explain.cause_kinds`` has them in order."""
