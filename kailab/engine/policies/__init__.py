"""Options beyond KAI's behaviour. Without them the engine decides as KAI does.

``settings`` defines the values of the configuration; ``switches`` turns KAI's plugins on and off. ``contract`` is the
interface of user policies, with what they see in ``views`` and ``dispatching``. ``job_orders``, ``node_scores``,
``queue_shares`` and ``job_reservations`` call them. ``ranking`` orders jobs (by ``weighted_score`` if configured),
``victim_order`` orders victims. ``eviction_limits`` and ``taken_ratio`` bound evictions, ``budget`` bounds searches,
and ``constraint_removal`` removes topology constraints. ``session_contract`` is the session as these modules read it.
"""
