"""Operators beside a control plane: real controllers of kinds such as JobSet or RayCluster, as processes of the plane.

``registry`` lists them, ``processes`` starts, checks and ends them, ``launching`` has the flags and configuration of each.
"""

from kailab.operators.processes import OperatorFailed, Operators
from kailab.operators.registry import OPERATORS, choose_operators

__all__ = ["OPERATORS", "OperatorFailed", "Operators", "choose_operators"]
