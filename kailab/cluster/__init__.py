"""Clusters: where objects live. ``protocol.Cluster`` is the one protocol; everything above it works with every backend.

    embedded          a cluster in this process, in virtual time
    kubernetes        any real API server
    controlplane      a real control plane as plain processes, which this package starts
    kind, vcluster    clusters in containers, made by the commands of those projects
    stages            KWOK stages, which give fake nodes and pods on a real API server their life
    install           KAI's kinds, priority classes and namespaces; devices for DRA

``backends`` is the table of backends; the venues that use them are in ``kailab.lab.venues``.
"""
