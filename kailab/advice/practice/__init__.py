"""Manifests held against what practice asks for: each finding with its rule, its place, why, and the cure."""

from __future__ import annotations

from kailab.advice.practice.checking import lint
from kailab.advice.practice.rules import RULES, Finding, Rule

__all__ = ["RULES", "Finding", "Rule", "lint"]
