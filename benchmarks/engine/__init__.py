"""The engine alone, on the work of KAI's own Go benchmarks: ours beside KAI's, with the outcome checked."""
