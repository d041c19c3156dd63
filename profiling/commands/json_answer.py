"""What commands with `--json` share: one object on standard output, for an error as well."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import click

from profiling.exits import exit_with


class JsonCommand(click.Command):
    """A command that answers a wrong option with a JSON object too, where that was asked for."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        """As click's; `--json` is looked for among the words themselves, since they could not be parsed."""
        words = arguments[1] if len(arguments) > 1 else extra["args"]
        asks_for_json = "--json" in list(words)
        try:
            return super().make_context(*arguments, **extra)
        except click.UsageError as error:
            if asks_for_json:
                print_json(self.usage_answer(error.format_message()))
            raise

    def usage_answer(self, message: str) -> dict[str, Any]:
        """The object for a wrong option, for commands whose answers have other keys."""
        return {"error": message}


def print_json(answer: dict[str, Any]) -> None:
    """Prints an object on one line; a number that is infinite or NaN is null, since JSON has neither."""
    from profiling.strict_json import finite

    click.echo(json.dumps(finite(answer), ensure_ascii=False))


def end_with(message: str, status: int, *, as_json: bool) -> NoReturn:
    """Ends the program with a status and one sentence; with `as_json` an object says so as well."""
    if as_json:
        print_json({"error": message})
    exit_with(message, status)
