"""Operators beside a control plane: real controllers of kinds such as JobSet or RayCluster, as processes of the plane."""

from kailab.operators.processes import OperatorFailed, Operators
from kailab.operators.registry import OPERATORS, Operator, choose_operators

__all__ = ["OPERATORS", "Operator", "OperatorFailed", "Operators", "choose_operators"]
