"""Random input against what must hold of any: clusters for the engine, steps of people and odd manifests for a whole lab."""
