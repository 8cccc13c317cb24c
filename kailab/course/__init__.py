"""The course: lessons, and challenges, each a lab that starts broken and is judged by the effect of the student's
files.

- ``lesson`` reads a lesson from its folder in ``lessons``; ``teaching`` runs its steps, and ``slides`` makes slides of
  it.
- ``challenge`` reads a challenge from its folder in ``challenges``.
- ``judging`` opens a lab from the student's files and checks ``conditions`` (of the lab, with ``work``) and ``rules``
  (of the files).
- ``workspace`` is the student's folder with its lab. ``progress``, ``certificate`` and ``class_file`` record what has
  been done.
"""
