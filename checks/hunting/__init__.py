"""The hunt: random clusters decided by kailab and by another scheduler, and what they decide otherwise, cut down."""
