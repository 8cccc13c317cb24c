"""``python -m kailab``."""

from kailab.cli.main import main

main()
