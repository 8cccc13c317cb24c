"""The binding cycle: what was decided is carried out, with what has to be in place before a pod is bound or evicted."""
