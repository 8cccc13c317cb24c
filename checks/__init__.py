"""Runners that hold kailab against recorded behaviour of a real KAI: one report form for all of them."""
