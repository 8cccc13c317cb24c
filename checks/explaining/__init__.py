"""Explanations held against what labs do: random situations, each answer tried, and no hand that says what is right."""
