"""pytester runs tests within this process, and then forgets what they imported. A module that is loaded a second time has classes that are not
those of the first, so all of kailab is loaded before."""

from __future__ import annotations

import importlib
import pkgutil

import kailab

for _module in pkgutil.walk_packages(kailab.__path__, "kailab."):
    if not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)
