"""The account of past work, if ``--history`` asks for one.

Its packages (SQLAlchemy, psycopg) are an extra, and they are imported only here. A service without
``--history`` never imports them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fluence_extender.apps.processes import StartRefused
from fluence_extender.http.metrics import Metrics

if TYPE_CHECKING:
    from fluence_extender.accounting.reader import DatabaseReader
    from fluence_extender.accounting.writer import AccountWriter


@dataclass(frozen=True, slots=True)
class PastWork:
    """The writer and the reader of the account."""

    writer: AccountWriter
    reader: DatabaseReader

    def close(self) -> None:
        """Write what is left, and end."""
        self.writer.close()
        self.reader.close()


def open_history(address: str, keep: float, metrics: Metrics) -> PastWork | None:
    """Return the account at ``address``, None for "". Raises `StartRefused`.

    Only the address is checked: a database that is away doesn't keep the service from starting.
    """
    if not address:
        return None
    try:
        from fluence_extender.accounting.address import parse_address
        from fluence_extender.accounting.errors import BadAddress
        from fluence_extender.accounting.reader import DatabaseReader
        from fluence_extender.accounting.writer import AccountWriter, WriterFigures
    except ImportError as error:
        raise StartRefused(
            f"--history needs packages that aren't installed ({error}): "
            "pip install 'fluence-extender[history]', or leave out --history"
        ) from error
    try:
        url = parse_address(address)
    except BadAddress as error:
        raise StartRefused(str(error)) from None
    figures = WriterFigures(
        metrics.history_spooled.inc,
        metrics.history_written.inc,
        metrics.history_lost.inc,
        metrics.history_waiting.set,
        metrics.history_last_write.set,
    )
    return PastWork(AccountWriter(url, keep, figures), DatabaseReader(url))
