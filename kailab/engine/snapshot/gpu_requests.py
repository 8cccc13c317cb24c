"""The ways in which a task asks for GPUs: one class for each, with the rules of how it counts, fits and reads.

A request has exactly one form: ``NoGpu``, ``WholeGpus``, ``GpuFraction``, ``GpuMemory``, ``MigInstances`` or
``ClaimedGpus``. Resource claims may come beside any of them, because a pod can have containers with a claim and
containers with a request of their own; ``ClaimedGpus`` is the form of a task that has claims and nothing else. A new
form of sharing is a new class here and one line in ``gpu_request_from``. Source of the rules: KAI's
GpuResourceRequirement, resource_info and node_info.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec
from msgspec import structs

from kailab.engine.snapshot.counting import GPU, memory_as_gpus, mig_gpus
from kailab.engine.snapshot.counting import portion as memory_portion
from kailab.model.labels import GPU_RESOURCE

if TYPE_CHECKING:
    import numpy as np

M = TypeVar("M", int, "np.ndarray")
Counts = tuple[tuple[str, int], ...]  # (resource or device class, number), sorted


class GpuRequest:
    """What one task asks for. An amount that a form does not have is zero; the defaults here are those of no GPUs.

    ``devices``: the number of a node's devices that it takes whole or in part, without those of claims. ``portion``:
    milli-GPU of each of these; a whole device as long as the amount is not known. ``memory_mib``: MiB of each, for a
    request by memory. ``profiles``: MIG resource -> instances. ``claimed``: device class -> GPUs of resource claims.
    """

    __slots__ = ()

    shared: ClassVar[bool] = False
    """True for a share of a device (by fraction or by memory)."""
    by_memory: ClassVar[bool] = False
    """True if the part of a device that it takes depends on the memory of the device."""
    by_profile: ClassVar[bool] = False
    """True for MIG instances."""
    request_type: ClassVar[str] = "Regular"
    """KAI's name for the form (ResourceRequestType)."""

    devices: int = 0
    portion: int = GPU
    memory_mib: int = 0
    profiles: Counts = ()
    claimed: Counts = ()

    @property
    def nothing(self) -> bool:
        """True if it asks for no GPU in any form."""
        return not self.claimed

    # Claims

    def with_claims(self, claimed: Counts) -> GpuRequest:
        """The same request with these GPUs of resource claims beside it, instead of any it has."""
        raise NotImplementedError

    @property
    def claimed_devices(self) -> int:
        """The number of GPUs that it gets through resource claims."""
        return sum(count for _, count in self.claimed)

    # How it counts, in milli-GPU

    @property
    def most_gpus(self) -> int:
        """Milli-GPU of ``devices``; devices of which the part is not known count whole."""
        return self.devices * self.portion

    @property
    def most_devices(self) -> int:
        """The number of devices that it touches, those of claims included."""
        return self.devices + self.claimed_devices

    def plain_gpus(self) -> int:
        """Milli-GPU of all parts except GPU memory and MIG instances."""
        return self.claimed_devices * GPU

    def fixed_gpus(self) -> int:
        """Milli-GPU of all parts except GPU memory, which depends on the device."""
        return self.plain_gpus()

    def memory_gpus(self, device: int) -> int:
        """Milli-GPU of GPU memory while the task waits. ``device``: MiB of the smallest device in the cluster."""
        return 0

    def wanted_gpus(self, device: int) -> int:
        """Milli-GPU that it counts for while the task waits. ``device``: MiB of the smallest device in the cluster."""
        return self.fixed_gpus() + self.memory_gpus(device)

    def held_gpus(self, device: int) -> int:
        """Milli-GPU that it counts for on a node with devices of ``device`` MiB."""
        return self.fixed_gpus()

    @property
    def memory_in_all(self) -> int:
        """MiB of GPU memory on all its devices; 0 if it does not ask by memory."""
        return 0

    # What it takes of a node

    def whole_gpus(self) -> int:
        """Milli-GPU that it takes of a node's whole devices, claims included."""
        return self.claimed_devices * GPU

    def resources(self) -> dict[str, int]:
        """The resources of a node that the kubelet counts for it: name -> units. Shares and claims are none."""
        return {}

    def share_memory(self, device: M) -> int | M:
        """MiB that its part of one device takes, for a device of ``device`` MiB or an array of such sizes. 0 for a request
        without devices.
        """
        return 0

    def share_counted(self, device: int) -> int:
        """Milli-GPU that a share counts for in queues on a node with devices of ``device`` MiB."""
        return self.devices * memory_portion(self.share_memory(device), device)

    # For people

    def text(self) -> str:
        """What it asks for: ``2 whole GPUs``, ``0.5 of a GPU``, ``10000 MiB on each of 2 GPUs``."""
        number = self.plain_gpus() // GPU
        return f"{number} whole GPU{'' if number == 1 else 's'}"


class _Form(GpuRequest, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """In JSON, a form is an object of its own amounts, with ``mig`` for profiles and ``dra`` for claims."""

    def with_claims(self, claimed: Counts) -> GpuRequest:
        """The same request with these claims."""
        return structs.replace(self, claimed=claimed)


class NoGpu(_Form, frozen=True, kw_only=True):
    """No GPU. ``NO_GPU`` is the instance to use."""

    def with_claims(self, claimed: Counts) -> GpuRequest:
        """The claims alone, or nothing."""
        return ClaimedGpus(claimed=claimed) if claimed else NO_GPU


NO_GPU: GpuRequest = NoGpu()
"""The request of a task that wants no GPU."""


class ClaimedGpus(_Form, frozen=True, kw_only=True):
    """GPUs through resource claims alone."""

    claimed: Counts = msgspec.field(name="dra")

    def with_claims(self, claimed: Counts) -> GpuRequest:
        """These claims instead, or nothing."""
        return ClaimedGpus(claimed=claimed) if claimed else NO_GPU


class _Devices(_Form, frozen=True, kw_only=True):
    """A number of a node's devices, whole or a part of each."""

    devices: int

    def __post_init__(self) -> None:
        # A request for no devices is ``NO_GPU``: two truths would count differently.
        if self.devices < 1:
            raise ValueError(f"a request for GPUs is for one device or more, not {self.devices}")

    @property
    def nothing(self) -> bool:
        """False: it asks for a device at least."""
        return False

    def plain_gpus(self) -> int:
        """Milli-GPU of its devices and of claims."""
        return self.devices * self.portion + self.claimed_devices * GPU

    @property
    def _each(self) -> str:
        return f" on each of {self.devices} GPUs" if self.devices > 1 else " of a GPU"


class _Shares(_Devices, frozen=True, kw_only=True):
    """A part of each of a number of devices."""

    shared: ClassVar[bool] = True

    def whole_gpus(self) -> int:
        """0: shared devices are counted by their groups."""
        return 0


class WholeGpus(_Devices, frozen=True, kw_only=True):
    """Whole devices."""

    claimed: Counts = msgspec.field(name="dra", default=())

    def whole_gpus(self) -> int:
        """Milli-GPU of its devices and of claims."""
        return self.plain_gpus()

    def share_memory(self, device: M) -> int | M:
        """All of the device."""
        return device

    def resources(self) -> dict[str, int]:
        """The devices, by the name of their resource."""
        return {GPU_RESOURCE: self.devices}


class GpuFraction(_Shares, frozen=True, kw_only=True):
    """A fraction of each of its devices: ``portion`` milli-GPU. Use ``of`` where the portion may be a whole device."""

    request_type: ClassVar[str] = "Fraction"

    portion: int
    claimed: Counts = msgspec.field(name="dra", default=())

    @staticmethod
    def of(devices: int, portion: int, claimed: Counts = ()) -> GpuRequest:
        """``portion`` milli-GPU of each of ``devices``. The whole of each is a request for whole devices."""
        if not devices:
            return NO_GPU.with_claims(claimed)
        if portion == GPU:
            return WholeGpus(devices=devices, claimed=claimed)
        return GpuFraction(devices=devices, portion=portion, claimed=claimed)

    def share_memory(self, device: M) -> int | M:
        """The fraction of the device, in MiB, rounded down as in KAI."""
        return self.portion * device // GPU

    def text(self) -> str:
        """The fraction, with the number of devices."""
        return f"{self.portion / GPU:g}{self._each}"


class GpuMemory(_Shares, frozen=True, kw_only=True):
    """Memory of each of its devices, in MiB."""

    by_memory: ClassVar[bool] = True
    request_type: ClassVar[str] = "GpuMemory"

    memory_mib: int
    claimed: Counts = msgspec.field(name="dra", default=())

    def plain_gpus(self) -> int:
        """Milli-GPU of claims: what the memory counts for depends on the device."""
        return self.claimed_devices * GPU

    def memory_gpus(self, device: int) -> int:
        """Milli-GPU of the memory, to the nearest, on the smallest device."""
        return memory_as_gpus(self.memory_in_all, device)

    def held_gpus(self, device: int) -> int:
        """Milli-GPU of the memory on its devices, each rounded up to 0.01, and of claims."""
        return self.fixed_gpus() + self.devices * memory_portion(self.memory_mib, device)

    @property
    def memory_in_all(self) -> int:
        """MiB on all its devices."""
        return self.memory_mib * self.devices

    def share_memory(self, device: M) -> int | M:
        """The requested MiB, whatever the size of the device."""
        return self.memory_mib

    def text(self) -> str:
        """The memory, with the number of devices."""
        return f"{self.memory_mib} MiB{self._each}"


class MigInstances(_Form, frozen=True, kw_only=True):
    """MIG instances, by the resource names of their profiles."""

    by_profile: ClassVar[bool] = True
    request_type: ClassVar[str] = "MigInstance"

    profiles: Counts = msgspec.field(name="mig")
    claimed: Counts = msgspec.field(name="dra", default=())

    @property
    def nothing(self) -> bool:
        """False: it asks for an instance at least."""
        return False

    def fixed_gpus(self) -> int:
        """Milli-GPU of the instances, by the leading numbers of their profiles, and of claims."""
        return self.plain_gpus() + sum(mig_gpus(name) * count for name, count in self.profiles)

    def resources(self) -> dict[str, int]:
        """The instances, by the names of their profiles."""
        return dict(self.profiles)

    def text(self) -> str:
        """The number of instances of each profile."""
        return " and ".join(f"{count} {name}" for name, count in self.profiles)


class _Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The JSON form: the amounts of all forms, of which one may have some, and claims beside it."""

    devices: int = 0
    portion: int = GPU
    memory_mib: int = 0
    mig: Counts = ()
    dra: Counts = ()


def gpu_request_from(value: Mapping[str, Any]) -> GpuRequest:
    """The request whose JSON form is ``value``. A form's own JSON is what msgspec writes of it.

    Raises ValueError for unknown fields, for wrong types, and for amounts of two forms at once.
    """
    try:
        fields = msgspec.convert(value, _Fields)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if fields.mig:
        if fields.devices or fields.memory_mib:
            raise ValueError("MIG instances exclude devices and GPU memory in one request")
        return MigInstances(profiles=fields.mig, claimed=fields.dra)
    if fields.memory_mib:
        if fields.portion != GPU:
            raise ValueError("a request is by portion or by memory_mib, not both")
        return GpuMemory(devices=fields.devices, memory_mib=fields.memory_mib, claimed=fields.dra)
    return GpuFraction.of(fields.devices, fields.portion, fields.dra)
