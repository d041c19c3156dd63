"""`python -m profiling devices`: calls and prints."""

from __future__ import annotations

import click

from profiling.exits import EXIT_FAILED, exit_with


@click.command()
def devices() -> None:
    """List the devices that torch can measure on, the best first."""
    from profiling.child_process import MeasuringError
    from profiling.live_check import LiveChecker

    try:
        with LiveChecker() as checker:
            environment = checker.environment()
    except MeasuringError as error:
        exit_with(str(error), EXIT_FAILED)
    click.echo(f"torch {environment['torch_version']}, {environment['torch_threads']} threads on the CPU")
    for device in environment["devices"]:
        mark = "  <- auto" if device["name"] == environment["device"] else ""
        click.echo(f"{device['name']:8} {device['description']}{mark}")
