"""Finders of causes: functions that take a waiting group and yield causes. ``kailab.explain.cause_kinds`` has them in order."""
