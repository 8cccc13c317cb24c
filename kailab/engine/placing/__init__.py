"""Where tasks go: which nodes fit, which of them is best, and a whole job within its topology."""
