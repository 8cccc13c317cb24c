"""A release of KAI installed by its Helm chart, as its users install it: its programs run as pods of the cluster."""
