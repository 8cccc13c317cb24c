"""Queues: their fair shares, their limits, and the order in which their jobs are served.

``accounts`` sums up what queues hold and ask for; ``fairshare`` divides the cluster among them and reports it as
records of ``division``. ``capacity`` checks limits and quotas. ``order`` compares queues, jobs and tasks (records in
``order_records``), ``jobqueue`` serves jobs in that order, and ``victims`` gives up tasks in reverse.
"""
