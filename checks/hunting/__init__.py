"""The hunt: random clusters decided by kailab and by another scheduler, and the differences, cut down.

``hunt`` runs it and keeps it in the folder of ``store``. ``random_sample`` makes a ``sample.HuntSample`` from a seed,
``bench`` lets a scheduler decide it, ``judging`` compares ``outcomes`` and rules out chance, ``shrinking`` cuts a
difference down, and ``result`` reports.
"""
