"""The ground: quantities, Kubernetes objects as kailab sees them, manifests."""
