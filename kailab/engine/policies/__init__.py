"""Options beyond KAI's behaviour. Without them the engine decides as KAI does.

``settings`` defines the values of the configuration; ``switches`` turns KAI's plugins on and off. ``contract`` is the
interface of user policies, with what they see in ``views`` and ``dispatching``. ``orders``, ``scoring``, ``sharing``
and ``reserving`` call them. ``ranking`` orders jobs (by ``score`` if configured), ``victims`` orders victims.
``eviction_limits`` and ``taken_ratio`` bound evictions, ``budget`` bounds searches, and ``stripping`` removes topology
constraints.
"""
