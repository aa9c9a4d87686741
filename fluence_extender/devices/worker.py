"""The process that evaluates users' selectors: it reads one question a line, and writes one answer a line.

No expression can keep it busy for good: the kernel ends it after `PROCESSOR_SECONDS` of one question, and refuses it
memory beyond `MOST_ADDRESSES`. It ends itself once it has grown too large, or once its input ends.
"""

from __future__ import annotations

import resource
import signal
import sys

import msgspec

from fluence_extender.devices.evaluation import Evaluations, Findings
from fluence_extender.model.devices import Attribute, Capacity, NodeDevice, Version

PROCESSOR_SECONDS = 1.0
"""The most processor time that one question takes."""

MOST_ADDRESSES = 2**30
"""Bytes of its address space."""

GROWN = 256 * 2**10
"""KiB of memory beyond which it ends, so that a new one replaces it."""

NO_MEMORY = "needs too much memory"


class Described(msgspec.Struct, array_like=True):
    """What an expression can read of a device. Versions are kept apart from texts, because in JSON they look alike."""

    serial: int
    driver: str
    shareable: bool
    attributes: dict[str, bool | int | str]
    versions: dict[str, str]
    amounts: dict[str, int]


class Question(msgspec.Struct, array_like=True):
    """Which devices, given by serial numbers, does the expression select? ``described`` has those that are new."""

    expression: str
    devices: list[int]
    described: list[Described]


def describe(serial: int, device: NodeDevice) -> Described:
    """Return what can be read of a device."""
    plain = {name: one for name, one in device.attributes.items() if not isinstance(one, Version)}
    versions = {name: one.text for name, one in device.attributes.items() if isinstance(one, Version)}
    return Described(serial, device.driver, device.shareable, plain, versions, dict(device.amounts))


def device_of(described: Described) -> NodeDevice:
    """Return a device with what was described."""
    attributes: dict[str, Attribute] = {**described.attributes}
    attributes.update((name, Version(text)) for name, text in described.versions.items())
    capacity = {name: Capacity(amount) for name, amount in described.amounts.items()}
    return NodeDevice(described.driver, "", "", attributes, capacity, shareable=described.shareable)


def main() -> None:
    """Answer questions until the input ends."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    decode, encode = msgspec.json.Decoder(Question).decode, msgspec.json.Encoder().encode
    evaluations, devices_by_serial = Evaluations(), dict[int, NodeDevice]()
    # The one-time work of the library isn't charged to the first question.
    evaluations.judge("true", ())
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
        question = decode(line)
        devices_by_serial.update((one.serial, device_of(one)) for one in question.described)
        try:
            answer = evaluations.judge(
                question.expression, [devices_by_serial[serial] for serial in question.devices]
            )
        except MemoryError:
            answer = Findings(fault=NO_MEMORY)
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(encode(answer) + b"\n")
        sys.stdout.buffer.flush()
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > GROWN:
            return


if __name__ == "__main__":
    main()
