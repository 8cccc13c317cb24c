"""Scenarios: steps of manifests, each with the outcome that is expected after it, written by users or recorded of a real KAI."""
