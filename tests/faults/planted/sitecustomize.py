"""Plants one fault into a program of Python, if the environment names one: at the nth time that it changes something in a folder it is killed, or the
disk is full from then on. Python loads this file by itself when it starts. Processes that the program starts are spared."""

import errno
import os
import signal
import sys

_FOLDER, _AT, _FAULT, _COUNT = (os.environ.pop(f"PLANTED_{name}", "") for name in ("FOLDER", "AT", "FAULT", "COUNT"))
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_MAKE = {"os.mkdir", "os.rename", "os.link", "os.symlink"}
_TAKE = {"os.remove", "os.rmdir"}
_seen = 0


def _is_ours(path: object) -> bool:
    try:
        return os.path.abspath(os.fsdecode(path)).startswith(_FOLDER)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    global _seen
    made = event in _MAKE or (event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & _WRITES))
    if not (made or event in _TAKE) or not any(_is_ours(one) for one in arguments[: 2 if event == "os.rename" else 1]):
        return
    _seen += 1
    if _COUNT:
        with_count = os.open(_COUNT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(with_count, str(_seen).encode())
        os.close(with_count)
    elif _FAULT == "kill" and _seen >= int(_AT):
        os.kill(os.getpid(), signal.SIGKILL)
    elif _FAULT == "full" and _seen >= int(_AT) and made:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))


if _FOLDER:
    sys.addaudithook(_watch)
