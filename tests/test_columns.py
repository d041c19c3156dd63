from __future__ import annotations

from profiling.columns import (
    ENVIRONMENT_COLUMNS,
    JOINED_COLUMNS,
    MEASUREMENT_COLUMNS,
    REPORT_COLUMNS,
    RUN_STATES,
    SAMPLE_COLUMNS,
    STATUSES,
    WORKLOAD_COLUMNS,
    names,
)
from profiling.workload import Workload


def test_no_table_names_a_column_twice() -> None:
    for columns in (MEASUREMENT_COLUMNS, SAMPLE_COLUMNS, REPORT_COLUMNS):
        assert len(set(names(columns))) == len(columns)


def test_every_column_has_a_known_kind_and_a_meaning() -> None:
    for column in (*MEASUREMENT_COLUMNS, *SAMPLE_COLUMNS, *REPORT_COLUMNS):
        assert column.kind in ("int", "float", "bool", "text"), column
        assert column.meaning.strip(), column


def test_the_workload_columns_are_the_fields_of_a_workload_and_its_head_dim() -> None:
    assert set(names(WORKLOAD_COLUMNS)) == {*Workload.__dataclass_fields__, "head_dim"}


def test_a_report_row_holds_the_measurement_but_its_replicate_and_stands_alone() -> None:
    added = {*names(JOINED_COLUMNS), *names(ENVIRONMENT_COLUMNS)}
    assert set(names(REPORT_COLUMNS)) == {*names(MEASUREMENT_COLUMNS), *added} - {"replicate"}


def test_a_column_with_a_unit_is_a_number() -> None:
    for column in MEASUREMENT_COLUMNS:
        if column.name.endswith(("_ms", "_mib", "_per_s")):
            assert column.kind == "float"


def test_the_statuses_and_states_are_those_of_the_design() -> None:
    assert STATUSES == ("ok", "oom", "crashed", "timeout", "error", "invalid", "unavailable")
    assert RUN_STATES == ("running", "stopped", "finished", "failed")
