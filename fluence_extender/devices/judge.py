"""Decides which selectors are evaluated next, and how much each namespace may have evaluated.

An *ask* holds the selectors of one pod's claims. Pods of a namespace with equal selectors share one ask. An ask is
settled once all its verdicts are known, or once it has used up its budget. Each piece of work is one expression for
some devices; namespaces take turns, and so do the asks of one namespace. The classes' selectors, which administrators
write, come first and have no budget.

The judge does no I/O: its owner takes a piece, has it evaluated elsewhere, and brings the answer back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from fluence_extender.devices.evaluation import Findings
from fluence_extender.devices.selectors import Table, Values, table
from fluence_extender.model.devices import NodeDevice
from fluence_extender.model.pace import Pace

MOST_CHARACTERS = 20_000
"""The most characters of the selectors of one pod's claims."""

MOST_COSTLY = 500_000
"""The most steps, beyond the first 200 of each evaluation, of the selectors of one pod's claims on all devices."""

MOST_OF_A_NAMESPACE = 200_000
"""The most characters of a namespace's selectors whose verdicts are kept."""

FEWEST_CHARACTERS = 200
"""A shorter selector counts as this many of a namespace's characters, because its verdicts take as much memory."""

STEPS_AT_ONCE, STEPS_A_SECOND = 1_000_000, 50_000
"""The steps that a namespace may take at once, and how many it gets back each second."""

STEPS_OF_A_LOSS = 2 * STEPS_AT_ONCE
"""The steps that an expression is charged if it ends the process that evaluates it."""

DEVICES_AT_ONCE = 500
"""The most devices of one piece of work."""

LOOKS = 100
"""The most asks that are looked at for the next piece of work; more looks follow after a break."""

ADMINISTRATORS = ""
"""The namespace under which the selectors of classes are kept; administrators write them."""

UNDER_WAY = "the CEL selectors of its claims are being evaluated"
PUT_OFF = (
    "the CEL selectors of its claims aren't evaluated yet: those of other pods in its namespace have "
    f"{MOST_OF_A_NAMESPACE:,} characters, as many as are kept; delete pods that needn't wait, or let pods use the "
    "same selectors"
)
TOO_LONG = f"the CEL selectors of its claims have more than {MOST_CHARACTERS:,} characters; use fewer or shorter ones"
TOO_COSTLY = (
    f"the CEL selectors of its claims take more than {MOST_COSTLY:,} steps for all devices together, beyond the first "
    "200 of each evaluation; use fewer or simpler ones"
)

Evaluate = Callable[[str, Sequence[NodeDevice]], Findings]


@dataclass(frozen=True, slots=True)
class Piece:
    """One expression, to be evaluated for devices with some values, on the account of a namespace."""

    namespace: str
    table: Table
    values: tuple[Values, ...]
    ask: _Ask


@dataclass(slots=True, eq=False)
class _Ask:
    """The selectors of the pods ``askers``. ``waiting`` are those that were told to wait for the verdicts.

    An ask that is put off has no ``tables``.
    """

    namespace: str
    selectors: tuple[str, ...]
    askers: set[Hashable] = field(default_factory=set)
    waiting: set[Hashable] = field(default_factory=set)
    tables: tuple[Table, ...] = ()

    @property
    def characters(self) -> int:
        return sum(max(len(text), FEWEST_CHARACTERS) for text in self.selectors)

    @property
    def is_over(self) -> bool:
        return bool(self.namespace) and sum(one.costly for one in self.tables) > MOST_COSTLY

    @property
    def is_complete(self) -> bool:
        return bool(self.tables) and all(one.complete for one in self.tables)

    @property
    def is_settled(self) -> bool:
        return self.is_over or self.is_complete


@dataclass(slots=True)
class _Account:
    """What one namespace asks for. Asks are ``put_off`` while its selectors have too many characters to be kept."""

    asks: dict[tuple[str, ...], _Ask] = field(default_factory=dict)
    unsettled: OrderedDict[_Ask, None] = field(default_factory=OrderedDict)
    put_off: OrderedDict[_Ask, None] = field(default_factory=OrderedDict)
    characters: int = 0

    def begin(self, ask: _Ask) -> bool:
        """Begin with an ask if the namespace's characters allow it."""
        if ask.namespace and self.characters and self.characters + ask.characters > MOST_OF_A_NAMESPACE:
            self.put_off[ask] = None
            return False
        self.put_off.pop(ask, None)
        self.characters += ask.characters
        ask.tables = tuple(map(table, ask.selectors))
        self.unsettled[ask] = None
        return True


class Judge:
    """Keeps the asks. With ``evaluate``, it evaluates them at once, because there is no event loop to keep free.

    ``on_work`` is called when there may be work.
    """

    def __init__(self, evaluate: Evaluate | None = None) -> None:
        self._evaluate = evaluate
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._ask_of: dict[Hashable, _Ask] = {}
        self._settled: dict[Hashable, None] = {}
        self._now = 0.0
        self._steps = Pace(STEPS_AT_ONCE, STEPS_A_SECOND, lambda: self._now)
        self._outdated = False
        self._wanted_before = False
        self.has_more_to_look_at = False
        self.on_work: Callable[[], None] = lambda: None

    # What is asked.

    def want(self, asker: Hashable, namespace: str, selectors: tuple[str, ...]) -> tuple[str, str]:
        """Ask for selectors; return why the asker can't be served, and why it has to wait; "" if it needn't."""
        ask = self._ask_of.get(asker)
        if ask is None or (ask.namespace, ask.selectors) != (namespace, selectors):
            self.drop(asker)
            if not selectors:
                return "", ""
            if namespace and sum(map(len, selectors)) > MOST_CHARACTERS:
                return TOO_LONG, ""
            ask = self._begin(namespace, selectors)
            ask.askers.add(asker)
            self._ask_of[asker] = ask
            self._work()
        if ask.is_over:
            return TOO_COSTLY, ""
        if ask.is_complete:
            return "", ""
        ask.waiting.add(asker)
        return "", UNDER_WAY if ask.tables else PUT_OFF

    def _begin(self, namespace: str, selectors: tuple[str, ...]) -> _Ask:
        account = self._accounts.setdefault(namespace, _Account())
        ask = account.asks.get(selectors)
        if ask is None:
            ask = account.asks[selectors] = _Ask(namespace, selectors)
            account.begin(ask)
        return ask

    def drop(self, asker: Hashable) -> None:
        """Forget what somebody asked."""
        ask = self._ask_of.pop(asker, None)
        self._settled.pop(asker, None)
        if ask is None:
            return
        ask.askers.discard(asker)
        ask.waiting.discard(asker)
        if ask.askers:
            return
        account = self._accounts[ask.namespace]
        del account.asks[ask.selectors]
        account.unsettled.pop(ask, None)
        account.put_off.pop(ask, None)
        if ask.tables:
            account.characters -= ask.characters
            while account.put_off and account.begin(next(iter(account.put_off))):
                self._work()

    def look_again(self) -> None:
        """Take note of devices with new values."""
        self._outdated = True
        self._work()

    def _work(self) -> None:
        if self._evaluate is None:
            self.on_work()
            return
        now = 0.0
        while True:
            now += STEPS_OF_A_LOSS
            piece = self.next(now)
            if piece is not None:
                devices = [one.device for one in piece.values]
                self.take(piece, self._evaluate(piece.table.expression, devices), now)
            elif not self.has_more_to_look_at:
                return

    # What is to be evaluated.

    @property
    def settled(self) -> list[Hashable]:
        """The askers that waited and have their verdicts; each is returned once."""
        askers, self._settled = list(self._settled), {}
        return askers

    @property
    def wanted_before(self) -> bool:
        """Whether verdicts have arrived that somebody had looked for in vain; it is true only once."""
        wanted_before, self._wanted_before = self._wanted_before, False
        return wanted_before

    @property
    def has_news(self) -> bool:
        """Whether `settled` or `wanted_before` would say something."""
        return bool(self._settled) or self._wanted_before

    @property
    def idle(self) -> bool:
        """Whether nothing is left to be evaluated."""
        return not self._outdated and not any(account.unsettled for account in self._accounts.values())

    def next(self, now: float) -> Piece | None:
        """Return the next piece of work, None if there is none now. If `has_more_to_look_at`, call it again soon."""
        if self._outdated:
            self._outdated = False
            for account in self._accounts.values():
                account.unsettled.update(dict.fromkeys(one for one in account.asks.values() if one.tables))
        looks, self._now = LOOKS, now
        self.has_more_to_look_at = False
        for namespace in sorted(self._accounts, key=bool):
            account = self._accounts[namespace]
            while account.unsettled and looks:
                looks -= 1
                ask = next(iter(account.unsettled))
                if ask.is_settled:
                    self._settle(account, ask)
                elif namespace and self._steps.left(namespace) <= 0:
                    break
                else:
                    account.unsettled.move_to_end(ask)
                    self._accounts.move_to_end(namespace)
                    incomplete = next(one for one in ask.tables if not one.complete)
                    return Piece(namespace, incomplete, tuple(incomplete.lacking(DEVICES_AT_ONCE)), ask)
            if not looks:
                self.has_more_to_look_at = True
                return None
            if not account.asks:
                del self._accounts[namespace]
        return None

    def _settle(self, account: _Account, ask: _Ask) -> None:
        del account.unsettled[ask]
        self._settled.update(dict.fromkeys(ask.waiting))
        ask.waiting.clear()
        for one in ask.tables:
            self._wanted_before = self._wanted_before or one.wanted_before
            one.wanted_before = False

    def take(self, piece: Piece, answer: Findings, now: float) -> None:
        """Record the verdicts for a piece, and charge its steps."""
        if answer.fault:
            piece.table.fail(answer.fault)
        for values, verdict in zip(piece.values, answer.verdicts, strict=False):
            piece.table.learn(values, verdict)
        piece.table.costly += answer.costly
        self._count(piece, answer.steps, now)

    def lose(self, piece: Piece, why: str, now: float) -> None:
        """Record that a piece ended the process that evaluated it."""
        piece.table.fail(why)
        self._count(piece, STEPS_OF_A_LOSS, now)

    def _count(self, piece: Piece, steps: int, now: float) -> None:
        self._now = now
        self._steps.spend(piece.namespace, steps)
        account = self._accounts.get(piece.namespace)
        if account is not None and piece.ask in account.unsettled and piece.ask.is_settled:
            self._settle(account, piece.ask)
