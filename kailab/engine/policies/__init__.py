"""Policies that can be chosen by configuration, one room each. With none chosen the engine decides as KAI does.

``settings`` says what can be chosen; ``switches`` turns KAI's plugins on and off; ``ranking`` orders jobs; ``score``
reckons the weighted score; ``victims`` orders victims; ``limits`` bounds evictions, ``budget`` bounds searches.
"""
