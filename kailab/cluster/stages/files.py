"""All stages, as objects and as the file that KWOK is started with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kailab.cluster.protocol import Object
from kailab.cluster.stages.nodes import node_stages
from kailab.cluster.stages.pods import pod_stages
from kailab.model.private_files import write_text


def stages() -> list[Object]:
    """Stage objects for nodes and pods."""
    return [*node_stages(), *pod_stages()]


def write_stages(path: Path) -> Path:
    """Write all stages into a file for ``kwok --config``. Returns its path."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes templates as block text."""

    def text(dumper: Any, value: str) -> Any:
        # People read templates when a stage does not do what it should.
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    content = yaml.dump_all(stages(), Dumper=Dumper, sort_keys=False, width=120)
    write_text(path, content)
    return path
