import time

import pytest
from dashboard_fakes import FakeChecker, report

from dashboard.live_checks import LiveChecks
from profiling.child_process import MeasuringError
from profiling.device_lock import DeviceBusy, Owner
from profiling.workload import Grid

POINTS = list(Grid(batch_size=(1, 3), seq_len=(5,), num_heads=(2,), d_model=14).workloads(device="cpu"))


@pytest.fixture
def serve():
    running = []

    def start(checker):
        running.append(LiveChecks(lambda: checker))
        return running[-1]

    yield start
    for checks in running:
        checks.close()


def answer(checks, point, contender, **options):
    deadline = time.monotonic() + 5
    found = checks.ask(point, contender, **options)
    while found.is_pending and time.monotonic() < deadline:
        time.sleep(0.01)
        found = checks.ask(point, contender)
    return found


def test_asking_never_waits_for_the_answer(serve):
    checker = FakeChecker()
    checker.may_answer.clear()
    checks = serve(checker)
    assert checks.ask(POINTS[0], "custom").is_pending
    checker.may_answer.set()
    assert answer(checks, POINTS[0], "custom").report == report()


def test_an_answer_is_kept_until_it_is_asked_for_again(serve):
    checker = FakeChecker()
    checks = serve(checker)
    answer(checks, POINTS[0], "custom")
    answer(checks, POINTS[0], "custom")
    assert len(checker.asked) == 1
    answer(checks, POINTS[0], "custom", again=True)
    assert len(checker.asked) == 2


def test_the_newest_workload_is_checked_first_and_its_contenders_in_order(serve):
    checker = FakeChecker()
    checker.may_answer.clear()
    checks = serve(checker)
    checks.ask(POINTS[0], "official")
    time.sleep(0.1)  # in hand by now
    for point, contender in [(POINTS[0], "custom"), (POINTS[1], "custom"), (POINTS[1], "custom-fused")]:
        checks.ask(point, contender)
    checker.may_answer.set()
    answer(checks, POINTS[0], "custom")
    assert checker.asked[1:] == [(POINTS[1], "custom"), (POINTS[1], "custom-fused"), (POINTS[0], "custom")]


def test_a_busy_device_is_told_with_its_owner_and_asked_again_when_it_is_free(serve):
    owner = Owner(kind="sweep", device="cpu", pid=1, started_at="2026-03-01T19:08:11+00:00", run_id="r")
    checker = FakeChecker({"custom": DeviceBusy(owner)})
    checks = serve(checker)
    assert answer(checks, POINTS[0], "custom").busy == owner
    checker.answers.clear()
    checks.forget_busy()
    assert answer(checks, POINTS[0], "custom").report == report()


def test_a_check_that_cannot_be_made_is_a_sentence(serve):
    checks = serve(FakeChecker({"custom": MeasuringError("the measuring process died: killed by signal 9")}))
    assert answer(checks, POINTS[0], "custom").error == "the measuring process died: killed by signal 9"


def test_a_missing_torch_is_a_sentence_and_answers_every_check(serve):
    checks = serve(FakeChecker(environment=MeasuringError("torch cannot be imported")))
    assert answer(checks, POINTS[0], "custom").error == "torch cannot be imported"
    assert checks.machine is None
    assert checks.machine_error == "torch cannot be imported"


def test_what_torch_finds_is_known_after_a_while(serve):
    checks = serve(FakeChecker())
    answer(checks, POINTS[0], "custom")
    assert (checks.machine.device, checks.machine.threads, checks.machine.devices) == ("cpu", 2, ("cpu",))


def test_closing_ends_the_measuring_process():
    checker = FakeChecker()
    checks = LiveChecks(lambda: checker)
    checks.close()
    assert checker.is_closed
    assert "has ended" in checks.ask(POINTS[0], "custom").error
