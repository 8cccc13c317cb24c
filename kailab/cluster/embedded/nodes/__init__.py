"""The fake nodes of the embedded cluster: the kubelet's work on pods, and what happens to pods when nodes fail."""
