"""What holds of a view when it is taken: its copies of gangs are as the gangs are."""

from __future__ import annotations

from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.planning.view import View

OF_GANGS = (
    "key",
    "size",
    "state",
    "reason",
    "again_at",
    "back_off",
    "was_complete",
    "queue",
    "usual_priority",
    "usual_duration",
    "head_start",
    "entitlement",
    "asks_since",
    "obstacle",
)
OF_MEMBERS = (
    "pod",
    "binding",
    "bound",
    "held_node",
    "assignment",
    "refusals",
    "record",
    "submitted",
    "first_seen",
)


def check_view(view: View, controller: Controller) -> None:
    """Compare all that a pass reads of gangs with the gangs."""
    live = controller.registry.gangs
    assert view.registry.gangs.keys() == live.keys()
    for key, gang in live.items():
        actual, copied = _read(gang), _read(view.registry.gangs[key])
        stale = {
            name: (copied.get(name), value) for name, value in actual.items() if copied.get(name) != value
        }
        assert not stale, f"{key} has changed, and its copy hasn't: {stale}"


def _read(gang: Gang) -> dict[str, object]:
    """Return what a pass reads of a gang and of its members, by name."""
    read = {name: getattr(gang, name) for name in OF_GANGS}
    for uid, member in gang.members.items():
        read |= {f"{uid}.{name}": getattr(member, name) for name in OF_MEMBERS}
    return read
