"""Policies in a file of one's own, named ``FILE.py:CLASS``: read, run once, and known by their content."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from kailab.engine.policies.contract import Policy, check_policy
from kailab.errors import ExtensionError, InputError, Where, told
from kailab.model.files import read_bytes

DISTRIBUTION = "file"
"""What stands for a distribution where a file brings a policy; its version is the file's digest."""
_ENDING = ".py"


class FilePolicy(NamedTuple):
    """``version``: ``sha256:`` and the first figures of the file's digest."""

    policy: type[Policy]
    version: str


def is_file(name: str) -> bool:
    """Whether a policy's name is that of a file and a class.

    >>> is_file("mine/order.py:Order"), is_file("fifo")
    (True, False)
    """
    return name.rpartition(":")[0].endswith(_ENDING)


def seen_from(name: str, folder: Path) -> str:
    """The name of a file's policy as it is from here, written where ``folder`` is."""
    return str(folder / Path(name).expanduser()) if is_file(name) else name


def load_file(name: str) -> FilePolicy:
    """Runs the file. Raises InputError for a file that can't be read or has no such policy, ExtensionError whatever its code raises."""
    path, _, wanted = name.rpartition(":")
    content = read_bytes(path)
    digest = hashlib.sha256(content).hexdigest()
    module = _run(str(Path(path).absolute()), path, content, digest)
    found = getattr(module, wanted, None) if wanted.isidentifier() else None
    if found is None:
        own = [key for key, one in vars(module).items() if isinstance(one, type) and one.__module__ == module.__name__]
        there = ", ".join(key for key in own if issubclass(vars(module)[key], Policy)) or "none"
        raise InputError(f"has no policy {wanted!r:.80}; it has: {there}", Where(file=path))
    try:
        check_policy(found)
    except InputError as error:
        raise InputError(error.message, Where(file=path)) from None
    return FilePolicy(found, f"sha256:{digest[:16]}")


@cache
def _run(place: str, path: str, content: bytes, digest: str) -> ModuleType:
    """Once for each content: what is made of a class stays the same class."""
    try:
        code = compile(content, path, "exec")
    except (SyntaxError, ValueError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError(f"is no Python: {message}", Where(file=path, line=line or 0)) from None
    module = ModuleType(f"kailab_policy_{digest[:16]}")
    module.__file__ = place
    # Types of a class's fields are looked up in its module.
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)  # it is the user's own file, named by the user
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise ExtensionError(f"{path} can't be loaded: {told(error)}") from error
    return module
