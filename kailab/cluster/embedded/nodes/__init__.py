"""The fake nodes of the embedded cluster: what a kubelet does to pods, and what becomes of pods when nodes go."""
