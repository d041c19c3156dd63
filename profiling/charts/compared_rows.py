"""Which rows of a comparison a chart has room for: of many shapes those where the most changed."""

from __future__ import annotations

import dataclasses

import pandas as pd

from profiling.charts.claim_text import CLAIMS

# Of more shapes the worst are drawn: a name a line, and nobody reads on for pages.
MOST_SHAPES = 40
# Of more contenders the marks of a shape would lie on each other.
MOST_CONTENDERS = 8
WORK = ("batch_size", "seq_len", "num_heads", "d_model", "dtype", "device", "mode", "bias", "causal")


@dataclasses.dataclass(frozen=True)
class Drawn:
    """What of a comparison is drawn.

    Attributes:
        rows: those drawn; a reference's own says what the machine did, and is none of them.
        shapes: how many there are of them.
        contenders: likewise.
        shapes_left_out: of which there is no mark.
        contenders_left_out: likewise.
    """

    rows: pd.DataFrame
    shapes: int
    contenders: int
    shapes_left_out: int
    contenders_left_out: int


def choose_rows(rows: pd.DataFrame) -> Drawn:
    """The rows of a comparison that its chart has room for: of many shapes those of the worst rows.

    Args:
        rows: as `profiling.compare.columns` has them.
    """
    judged = rows[~rows["is_yardstick"]]
    contenders = list(judged["contender"].unique())
    judged = judged[judged["contender"].isin(contenders[:MOST_CONTENDERS])]
    shape = judged.groupby(list(WORK), dropna=False, sort=False).ngroup()
    worst = pd.DataFrame(
        {
            "shape": shape,
            "is_regression": judged["is_regression"],
            "is_claimed": judged["verdict"].isin(CLAIMS),
            "size": judged["change_percent"].astype("float64").abs().fillna(0.0),
        }
    ).sort_values(["is_regression", "is_claimed", "size"], ascending=False, kind="stable")
    kept = worst["shape"].drop_duplicates().head(MOST_SHAPES)
    num_shapes = int(shape.nunique())
    return Drawn(
        rows=judged[shape.isin(kept)].reset_index(drop=True),
        shapes=len(kept),
        contenders=min(len(contenders), MOST_CONTENDERS),
        shapes_left_out=num_shapes - len(kept),
        contenders_left_out=max(0, len(contenders) - MOST_CONTENDERS),
    )
