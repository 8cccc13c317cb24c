"""The course: challenges, each a lab that starts broken, judged by what comes of the student's files.

- ``challenge`` and ``reading``: a challenge as a value, from its folder in ``challenges``.
- ``judging``: a lab opened from the student's files, by ``conditions`` (of the lab) and ``rules`` (of the files).
- ``workspace``: the student's folder and its lab; ``progress`` and ``certificate``: what has been done.
"""
