"""What a cycle does, one action a module, in the order of the configuration."""
