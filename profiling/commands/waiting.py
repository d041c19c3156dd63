"""What commands say while somebody else measures on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from profiling.device_lock import Owner


def tell_waiting(owner: Owner) -> None:
    """Says for whom is waited, aside from the answer."""
    click.echo(f"waiting: {owner.sentence}", err=True)
