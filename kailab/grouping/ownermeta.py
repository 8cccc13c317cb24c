"""The annotation that tells a PodGroup's top owner, as a small YAML text that KAI's other parts read."""

from __future__ import annotations

import json
import re
from functools import lru_cache

import yaml

from kailab.cluster.protocol import Object
from kailab.grouping.fields import group_version
from kailab.model.objects import name_of, uid_of

TOP_OWNER_METADATA = "kai.scheduler/top-owner-metadata"

# Texts that YAML would read as something other than a string, or can't take unquoted.
_NEEDS_QUOTES = re.compile(
    r"""
    | ~ | [Nn]ull | NULL | [Tt]rue | TRUE | [Ff]alse | FALSE
    | [yYnN] | [Yy]es | YES | [Nn]o | NO | [Oo]n | ON | [Oo]ff | OFF
    | [-+]? (?: 0b[01_]+ | 0o?[0-7_]+ | 0x[0-9a-fA-F_]+ | [0-9][0-9_]* )
    | [-+]? (?: \.[0-9]+ | [0-9]+(?:\.[0-9]*)? ) (?: [eE][-+]?[0-9]+ )?
    | [-+]? \.(?:inf|Inf|INF) | \.(?:nan|NaN|NAN)
    | [-+]? [0-9][0-9_]* (?: :[0-9]{1,2} )+ (?: \.[0-9_]* )?
    | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*
    | [-?:,\[\]{}\#&*!|>'"%@`\s].* | .*:(?:\s.*)? | .*\s\#.* | .*\s
    """,
    re.VERBOSE | re.DOTALL,
)


# The usual name and the usual uid, which no reader takes for anything but text: what is no text has no hyphen after a letter
# at its beginning, and not four of them.
_TEXT = re.compile(r"[a-z]+-[-a-z0-9]*[a-z0-9]|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)


def top_owner_metadata(owner: Object) -> str:
    """Five lines: name, uid, group, version and kind of ``owner``."""
    group, version = group_version(owner.get("apiVersion") or "")
    return (
        f"name: {_scalar(name_of(owner))}\nuid: {_scalar(uid_of(owner))}\ngroup: {_word(group)}\n"
        f"version: {_word(version)}\nkind: {_word(owner.get('kind') or '')}\n"
    )


@lru_cache(maxsize=256)
def _word(text: str) -> str:
    """As ``_scalar``, for texts that come again and again."""
    return _scalar(text)


def _scalar(text: str) -> str:
    if _TEXT.fullmatch(text):
        return text
    return json.dumps(text) if _NEEDS_QUOTES.fullmatch(text) or _resolved(text) else text


def _resolved(text: str) -> bool:
    """Whether a reader of YAML 1.1 takes the text for something else than text (``0_.`` is a number there)."""
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(text[:1], ())
    return any(pattern.match(text) for _, pattern in resolvers)
