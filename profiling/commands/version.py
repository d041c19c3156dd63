"""`python -m profiling --version`: prints."""

from __future__ import annotations

import click


def show_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    """Prints which version this is, where that is asked, and ends; a folder that nobody installed has none."""
    if is_asked and not context.resilient_parsing:
        from profiling.environment import own_version

        click.echo(f"mha-bench, version {own_version() or 'unknown: nobody has installed this folder'}")
        context.exit()
