"""The actions of a cycle.

``allocate`` gives out free capacity; ``consolidation``, ``reclaim`` and ``preempt`` evict for waiting jobs and share
``evicting``; ``stalegangs`` evicts broken gangs. ``waiting`` holds the order in which an action tries the waiting jobs.
"""
