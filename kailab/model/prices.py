"""Read price files: the cost of a GPU-hour and the power of a GPU, by model.

    apiVersion: kailab.dev/v1
    kind: Prices
    currency: USD
    gpus:
      A100: {perHour: 2.50, watts: 400, idleWatts: 60}
      H100: {perHour: 5, watts: 700}
    other: {perHour: 1}

Models are values of the node label ``nvidia.com/gpu.product``. The schema is ``prices.schema.json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kailab.errors import InputError, InputErrors, Where
from kailab.model import yamltext
from kailab.model.files import decode_text, read_bytes
from kailab.model.schema_files import SchemaFault, find_schema_faults, raise_schema_faults, read_schema

LARGEST_FILE = 2**20  # bytes
SCHEMA = Path(__file__).with_name("prices.schema.json")
HOURS_OF_A_MONTH = 730.0
"""A twelfth of a year of 365 days, as clouds count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPrice:
    """One GPU. ``per_hour``: the price of an hour, used or idle. ``watts``: the power in use; ``idle_watts``: the power when idle;
    None: unknown."""

    per_hour: float
    watts: float | None = None
    idle_watts: float | None = None

    def cost(self, hours: float) -> float:
        """The price of this many GPU-hours, in the file's currency."""
        return self.per_hour * hours

    def kilowatt_hours(self, used: float, idle: float) -> float | None:
        """The energy of these GPU-hours, in use and idle; None if a power that it needs is unknown."""
        if (used and self.watts is None) or (idle and self.idle_watts is None):
            return None
        return ((self.watts or 0.0) * used + (self.idle_watts or 0.0) * idle) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """``gpus``: by model. ``other``: for all other models; None: they have no price."""

    gpus: Mapping[str, GpuPrice] = field(default_factory=dict)
    other: GpuPrice | None = None
    currency: str = "USD"
    description: str = ""
    file: str = ""

    def of(self, model: str) -> GpuPrice:
        """The price of a model ("" is a GPU of unknown model). Raises InputError if the file has none."""
        price = self.gpus.get(model, self.other)
        if price is None:
            title = repr(model) if model else "GPUs without a model"
            known = ", ".join(sorted(self.gpus))
            raise InputError(
                f"no price for {title}; there are: {known}; give one, or `other`", Where(file=self.file, field="gpus")
            )
        return price

    def check(self, models: Iterable[str]) -> None:
        """Raise InputErrors, one for each of these models without a price."""
        errors = []
        for model in sorted(set(models)):
            try:
                self.of(model)
            except InputError as error:
                errors.append(error)
        if errors:
            raise InputErrors.of(errors)


def load_prices(path: str | Path) -> Prices:
    """Read a price file. Raises InputError, or InputErrors with every fault."""
    return read_prices(decode_text(read_bytes(path, LARGEST_FILE), str(path)), str(path))


def read_prices(text: str, file: str = "<text>") -> Prices:
    """Read prices from YAML text; ``file`` names it in errors."""
    value, lines = yamltext.read_document(text, file, "one list of prices")
    faults = list(find_schema_faults(value, read_schema(SCHEMA)))
    if not faults and "gpus" not in value and "other" not in value:
        faults = [SchemaFault("gpus", "is required, or `other`: a file of prices without a price")]
    raise_schema_faults(faults, lines, file, "Prices")
    return Prices(
        gpus={str(model): _gpu(price) for model, price in value.get("gpus", {}).items()},
        other=_gpu(value["other"]) if "other" in value else None,
        currency=value.get("currency", "USD"),
        description=value.get("description", ""),
        file=file,
    )


def _gpu(value: Mapping[str, Any]) -> GpuPrice:
    watts, idle = value.get("watts"), value.get("idleWatts")
    return GpuPrice(
        per_hour=float(value["perHour"]),
        watts=None if watts is None else float(watts),
        idle_watts=None if idle is None else float(idle),
    )
