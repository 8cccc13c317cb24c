"""A trial, from its parts: what is not said gets its default, and what does not go together is refused before anything is started."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from msgspec import structs

from kailab.cluster.backends import BACKENDS
from kailab.errors import InputError
from kailab.evidence.canonical import compact_json
from kailab.fleet import load_fleet
from kailab.trials.contenders import check
from kailab.trials.matrix import KINDS, Contender, Subject, Trial

ISOLATION = "controlplane"


def made(
    contenders: Sequence[Contender],
    subjects: Sequence[Subject],
    isolations: Sequence[str],
    *,
    name: str,
    reference: str = "",
    fleet: str = "lesson",
    compared: Sequence[str] = (),
    time_ratio: float | None = None,
    jobs: int | None = None,
    baseline: str = "",
    options: Mapping[str, str] | None = None,
) -> Trial:
    """``isolations`` none: a light control plane for each cell. ``reference`` empty: the first contender. ``compared`` none: everything
    but time. Raises InputError, MissingComponents for operators that were not got."""
    if not contenders:
        raise InputError("say what is compared: --scheduler A --scheduler B")
    if not subjects:
        raise InputError("say what they are compared on: exercises, scenarios or manifests")
    for isolation in isolations:
        BACKENDS.check(isolation)
    if unknown := [kind for kind in compared if kind not in KINDS]:
        raise InputError(
            f"--compare: there is no kind of difference {unknown[0]!r}; expected some of: {', '.join(KINDS)}"
        )
    if "time" in compared and time_ratio is None:
        raise InputError("--compare time: say how many times as long is a difference: --time-ratio")
    found = _named_apart(subjects)
    load_fleet(fleet)
    trial = Trial(
        name=name,
        contenders=tuple(contenders),
        isolations=tuple(dict.fromkeys(isolations)) or (ISOLATION,),
        subjects=found,
        reference=reference or contenders[0].name,
        fleet=fleet,
        options=_options(options or {}),
        compared=tuple(compared) or KINDS[:-1],
        time_ratio=time_ratio,
        jobs=jobs,
        baseline=baseline,
    )
    check(trial.contenders, trial)
    if "operators" in trial.options:
        from kailab.operators.processes import find_addons as programs_found

        programs_found(trial.options["operators"].split(","))
    return trial


def _options(said: Mapping[str, str]) -> dict[str, str]:
    """Operators by name, with those that they need. Raises InputError."""
    if "operators" not in said:
        return dict(said)
    from kailab.operators import choose_operators

    return {**said, "operators": ",".join(choose_operators(said["operators"]))}


def _named_apart(subjects: Sequence[Subject]) -> tuple[Subject, ...]:
    """Each once. Scenarios that are called as an exercise is get a longer name. Raises InputError where two would have one name."""
    seen: dict[str, Subject] = {}
    for one in subjects:
        subject = one
        if subject.name in seen and seen[subject.name].kind != subject.kind:
            subject = structs.replace(subject, name=f"{subject.name}-{subject.kind}")
        other = seen.setdefault(subject.name, subject)
        if other.path != subject.path:
            raise InputError(f"{other.path} and {subject.path} would both be called {subject.name}")
    return tuple(seen.values())


def name_of(contenders: Sequence[Contender], subjects: Sequence[Subject], isolations: Sequence[str]) -> str:
    """The same for the same command, so that a rerun goes on."""
    what = compact_json([list(contenders), [subject.path for subject in subjects], list(isolations)])
    return f"trial-{hashlib.sha256(what).hexdigest()[:8]}"
