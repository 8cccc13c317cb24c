"""Replay one trace over several clusters: a dispatcher sends each job to a cluster with its own lab and queues, in one
virtual time.

``cluster_file`` reads the file of clusters into ``sites``. ``dispatcher`` asks the dispatch policy, moves jobs and
advances all labs together; ``replica`` is its view of one cluster, by ``feasibility`` and ``queue_bounds``.
``journeys`` records the way of each job and checks that none is lost; ``figures`` computes the results.
"""
