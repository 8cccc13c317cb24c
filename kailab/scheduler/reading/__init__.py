"""Objects of the cluster to records of the engine: one kind of object, or one part of a pod, per module.

Nothing here keeps state or asks a cluster: objects in, records out.
"""
