"""Traces of real clusters, replayed in virtual time through a lab: the same grouping, scheduler and evidence as any other work."""
