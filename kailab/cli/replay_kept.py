"""``replay --resume``: a replay that is kept in a file until it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cli import terminal

if TYPE_CHECKING:
    from kailab.replay.keeping import Keeper


@contextmanager
def kept(facts: Callable[[], Mapping[str, str]], file: Path | None) -> Iterator[Keeper | None]:
    """What keeps the replay in a file, if there is to be one, until the block ends well. ``facts``: what it is a replay of."""
    from kailab.cli import ending
    from kailab.errors import InputError
    from kailab.replay.keeping import Keeper

    if file is None:
        yield None
        return
    if not file.parent.is_dir():
        raise InputError(f"--resume {file}: there is no folder {file.parent}")
    with ending.noted() as asked:
        keeper = Keeper(file, facts(), asked)
        with keeper.held():
            try:
                yield keeper
            except KeyboardInterrupt:
                if file.exists():
                    terminal.notice(f"the replay is kept in {file}; the same command goes on from there")
                raise
            keeper.done()
