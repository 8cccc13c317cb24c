"""What was admitted of objects before: of one that says the same beside its metadata, defaults and checks come to the same.

Users submit thousands of equal jobs, and each of their pods gets a PodGroup like all others but for its name. Equal ones share what
was made of the first.
"""

from __future__ import annotations

from kailab.cluster.protocol import Object
from kailab.model.kinds import KINDS
from kailab.model.objects import content_key

_MOST = 1024
# All of metadata, and of owners, that the checks of metadata look at: whoever has more is looked at as a whole.
_METADATA = frozenset(("name", "generateName", "namespace", "labels", "annotations", "ownerReferences"))
_OWNER = frozenset(("apiVersion", "kind", "name", "uid", "controller"))


class AdmittedBefore:
    """All but the metadata of objects as they were admitted, by what they said when they came."""

    def __init__(self) -> None:
        self._admitted: dict[bytes, Object] = {}

    @staticmethod
    def said(kind: str, obj: Object) -> bytes | None:
        """What an object says beside its metadata; None where that does not decide what comes of it."""
        known = KINDS.get(kind)
        if known is None or not known.spec_alone or not obj["metadata"].keys() <= _METADATA:
            return None
        owners = obj["metadata"].get("ownerReferences") or ()
        if type(owners) not in (list, tuple) or any(
            type(one) is not dict or not one.keys() <= _OWNER for one in owners
        ):
            return None
        return content_key(kind, [(field, value) for field, value in obj.items() if field != "metadata"])

    def of(self, said: bytes) -> Object | None:
        """What such an object has beside its metadata once it is admitted; None where there was none yet."""
        return self._admitted.get(said)

    def take(self, said: bytes, admitted: Object) -> None:
        """Such an object was admitted, and came out so."""
        if len(self._admitted) >= _MOST:
            self._admitted.clear()
        self._admitted[said] = {field: value for field, value in admitted.items() if field != "metadata"}
