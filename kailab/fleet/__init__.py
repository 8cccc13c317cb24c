"""Fleets: described sets of fake nodes, read from YAML (format: fleets/README.md, ``schema.json``)."""
