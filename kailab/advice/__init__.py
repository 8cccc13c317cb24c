"""Advice about a cluster and about manifests: audits, health checks, practice rules, and what scheduling policies mean."""
