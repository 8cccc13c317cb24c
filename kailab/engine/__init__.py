"""Pure decisions: a snapshot and a configuration in, decisions with their reasons out.

No clock, no I/O, no threads, no Kubernetes client, no logging. Only the engine decides.
"""
