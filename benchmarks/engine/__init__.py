"""Benchmarks of the engine alone, on the set-ups of KAI's own Go benchmarks, beside KAI's times. Each outcome is checked."""
