"""``python -m kailab``."""

from kailab.cli.main import main

try:
    main()
except SystemExit:
    # Where Ctrl-C met code run by exec, as the making of a named tuple is, CPython takes note of it, and ends a program that was
    # started with -m by SIGINT, though the interrupt was caught and another exit code is given. Running code takes that back.
    exec("")
    raise
