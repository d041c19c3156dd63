"""A busy machine is waited for, no longer than is allowed; where nothing tells, nobody waits."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.measuring.devices import Cpu
from profiling.measuring.disturbance.cpu_times import CpuTimes
from profiling.measuring.disturbance.quiet import BUSY_CORES, HOLDER_LIMIT_S, LIMIT_S, LOOK_S, Quiet


class Machine:
    """A machine on which others take so many cores in each stretch between two looks, the last for ever."""

    def __init__(self, *cores: float, stolen: float = 0.0) -> None:
        self.now, self.busy_s, self.stolen_s, self.own_s = 100.0, 50.0, 7.0, 3.0
        self._cores, self._stolen = list(cores), stolen
        self.told: list[float] = []

    def work(self, seconds: float, own_cores: float = 0.0) -> None:
        """Time goes by, in which we ourselves work as well."""
        others = self._cores.pop(0) if len(self._cores) > 1 else self._cores[0]
        self.now += seconds
        self.busy_s += (others + own_cores) * seconds
        self.stolen_s += self._stolen * seconds
        self.own_s += own_cores * seconds

    def read(self) -> CpuTimes | None:
        return CpuTimes(self.now, self.busy_s, self.stolen_s, self.own_s)

    def quiet(self, allowance_s: float = 60.0, device: Cpu | None = None) -> Quiet:
        return Quiet(
            device or Cpu(),
            allowance_s,
            self.told.append,
            read_cpu=self.read,
            sleep=self.work,
            clock=lambda: self.now,
        )


class Accelerator(Cpu):
    """A device that tells who else is on it: so many at each look, the last for ever."""

    def __init__(self, holders: Iterable[int]) -> None:
        super().__init__()
        self.holders = list(holders)

    def other_processes(self) -> int | None:
        return self.holders.pop(0) if len(self.holders) > 1 else self.holders[0]


def test_on_a_quiet_machine_nobody_waits() -> None:
    machine = Machine(0.1)
    quiet = machine.quiet()
    machine.work(2.0, own_cores=1.9)
    assert not quiet.wait()
    assert quiet.waited_s == 0.0
    assert machine.told == []


def test_a_neighbour_is_waited_for_until_it_has_gone() -> None:
    machine = Machine(1.0, 1.0, 0.3, 0.1)
    quiet = machine.quiet()
    machine.work(0.7, own_cores=1.0)
    assert quiet.wait()
    assert quiet.waited_s == pytest.approx(3 * LOOK_S)
    assert machine.told == pytest.approx([LOOK_S, 2 * LOOK_S, 3 * LOOK_S])


def test_what_the_host_takes_is_waited_for_too() -> None:
    machine = Machine(0.0, stolen=0.5)
    quiet = machine.quiet()
    machine.work(0.7)
    assert quiet.wait()


def test_a_little_in_a_short_stretch_is_no_sign() -> None:
    machine = Machine(BUSY_CORES)
    quiet = machine.quiet()
    machine.work(0.05)
    assert not quiet.wait()


@pytest.mark.parametrize(("allowance_s", "waited_s"), [(60.0, LIMIT_S), (1.1, 1.0), (0.2, 0.0), (0.0, 0.0)])
def test_waiting_ends_at_what_is_allowed_and_at_the_limit_of_a_workload(allowance_s: float, waited_s: float) -> None:
    machine = Machine(1.7)
    quiet = machine.quiet(allowance_s)
    machine.work(0.7)
    assert quiet.wait() == (waited_s > 0)
    assert quiet.waited_s == pytest.approx(waited_s)
    assert not quiet.wait(), "a second time there is nothing left"
    assert quiet.waited_s == pytest.approx(waited_s)


def test_a_second_wait_looks_at_what_came_after_the_first() -> None:
    machine = Machine(1.0, 0.0, 0.0, 1.0, 0.0)
    quiet = machine.quiet()
    machine.work(0.7)
    assert quiet.wait()
    machine.work(0.7)
    assert not quiet.wait()
    machine.work(0.7)
    assert quiet.wait()
    assert quiet.waited_s == pytest.approx(2 * LOOK_S)


def test_without_counters_nobody_waits_and_the_figure_is_empty() -> None:
    quiet = Quiet(Cpu(), 60.0, pytest.fail, read_cpu=lambda: None, sleep=pytest.fail)
    assert not quiet.wait()
    assert quiet.waited_s is None


def test_another_process_on_the_device_is_waited_for_instead_of_the_processors() -> None:
    machine = Machine(1.9)
    quiet = machine.quiet(device=Accelerator([1, 2, 0]))
    machine.work(0.7)
    assert quiet.wait()
    assert quiet.waited_s == pytest.approx(2 * LOOK_S)
    assert not quiet.wait()


def test_who_stays_on_the_device_is_not_waited_for_long() -> None:
    quiet = Machine(0.0).quiet(device=Accelerator([1]))
    assert quiet.wait()
    assert quiet.waited_s == pytest.approx(HOLDER_LIMIT_S)


def test_a_device_without_others_is_quiet_however_busy_the_processors() -> None:
    machine = Machine(1.9)
    quiet = machine.quiet(device=Accelerator([0]))
    machine.work(0.7)
    assert not quiet.wait()
    assert quiet.waited_s == 0.0


@given(st.floats(0, 100), st.lists(st.floats(0, 3), min_size=1, max_size=30))
def test_never_longer_than_allowed_and_never_unannounced(allowance_s: float, cores: list[float]) -> None:
    machine = Machine(*cores)
    quiet = machine.quiet(allowance_s)
    machine.work(0.5)
    quiet.wait()
    assert quiet.waited_s is not None
    assert quiet.waited_s <= min(allowance_s, LIMIT_S) + 1e-9
    assert max(machine.told, default=0.0) == pytest.approx(quiet.waited_s)
