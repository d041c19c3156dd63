"""Options that name something, of which an empty text is no name: it comes of a variable that is not set."""

from __future__ import annotations

from typing import Any

import click


class FileName(click.Path):
    """A file's name; `""`, which would be the working folder, is refused, and `-` where it does not mean the output."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As click's path."""
        _require_text(self, value, param, ctx)
        if value == "-" and not self.allow_dash:
            self.fail("- is no file: give a name; one that is called so is ./-", param, ctx)
        return super().convert(value, param, ctx)


class Name(click.ParamType[str]):
    """A text that is not empty."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text as it is."""
        _require_text(self, value, param, ctx)
        return value


def _require_text(
    kind: click.ParamType[Any], value: Any, param: click.Parameter | None, ctx: click.Context | None
) -> None:
    if value == "":
        kind.fail("it is empty, which names nothing.", param, ctx)
