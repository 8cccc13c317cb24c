"""Scenarios: steps of manifests with the outcome expected after each, written by users or recorded from a real KAI.

``scenario`` reads files of scenarios; ``running`` carries them out on a lab and compares the outcome.
"""
