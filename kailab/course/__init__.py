"""The course: lessons, and challenges, each a lab that starts broken, judged by what comes of the student's files.

- ``lesson`` and ``lesson_reading``: a lesson as a value, from its folder in ``lessons``; ``teaching``: what it does on a lab.
- ``challenge`` and ``reading``: a challenge as a value, from its folder in ``challenges``.
- ``judging``: a lab opened from the student's files, by ``conditions`` (of the lab) and ``rules`` (of the files).
- ``workspace``: the student's folder and its lab; ``progress``, ``certificate`` and ``class_file``: what has been done.
"""
