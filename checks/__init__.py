"""Checks of kailab for its developers: recorded decisions of KAI, random clusters, random manifests, explanations that are tried out.

This package is part of the source, not of the wheel. Run `python -m checks --help`.
"""
