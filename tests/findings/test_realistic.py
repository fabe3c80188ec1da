"""Whether a delay is one that a slow device causes: what is run to know, and what follows."""

from __future__ import annotations

import msgspec
import pytest

from undermine.findings import realism
from undermine.findings.confirm import Attempt, Reruns
from undermine.findings.realism import check, delays_of, probe, seconds
from undermine.model.faults import Crash, Delay, Fault, Hold
from undermine.model.finding import LandedRun, Realism
from undermine.model.plan import At, FirstUnseen, Lasted, Plan, Step, Then
from undermine.model.point import Point, point_of
from undermine.model.rounds import RoundKind
from undermine.model.run import AwaitedRequest, SlowOp, Symptom
from undermine.testing import event, point

POSSIBLE = {"disk": "", "network": ""}
WRITE, SYNC = point("file.write"), point("file.fsync")
SEND = point("net.send", target="peer:n2")
RECV = point("net.recv", target="peer:n2")
ACCEPT, CONNECT = point("net.accept", target="listen"), point("net.connect", target="peer:n2")
LEAD = AwaitedRequest(SEND, 3, 1)


@pytest.fixture(autouse=True)
def one_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short run decides here; `test_a_short_operation_is_measured_again` tests the real number."""
    monkeypatch.setattr(realism, "MEASUREMENTS", 1)



def failed(*steps: tuple[Point, Fault]) -> LandedRun:
    """A run that failed since these faults fired there."""
    plan = Plan(tuple(Step(At(at), fault) for at, fault in steps))
    return LandedRun(1, "a", plan, plan.id, "fired", (Symptom("late"),), tuple(enumerate(at for at, _ in steps)))


def slow(at: Point, took_s: float, step: int = 0, **more: object) -> SlowOp:
    return SlowOp(step, at.devices[0], 10.0, at.get("op"), took_s, **more)  # type: ignore[arg-type]


def rerun(plan: Plan, landed: tuple[Point, ...], *ops: SlowOp, status: str = "fired") -> LandedRun:
    return LandedRun(9, "realism", plan, plan.id, status, (), tuple(enumerate(landed)), ops)  # type: ignore[arg-type]


def known(first: LandedRun, *runs: LandedRun, lacking: dict[str, str] = POSSIBLE) -> tuple[Realism, Plan | None]:
    return check(first, lambda plan: [run for run in runs if run.plan_id == plan.id], lacking)


def once(at: Point, took_s: float, mode: str = "thread", **more: object) -> Realism:
    first = failed((at, Delay(5.0, mode)))  # type: ignore[arg-type]
    said, todo = known(first, rerun(probe(first.plan), (at,), slow(at, took_s, **more)))
    assert todo is None
    return said


# --- what another plan has measured


def reruns(first: LandedRun, *others: LandedRun) -> Attempt:
    return Reruns([*others, first], POSSIBLE).attempt(first, lambda run: bool(run.symptoms))


def measured(at: Point, took_s: float, number: int = 1, delay_s: float = 5.0, **more: object) -> list[LandedRun]:
    """Another plan that delays the operation, and its run with a slow device."""
    other = failed((at, Delay(delay_s)))
    plan = msgspec.structs.replace(other.plan, seed=number)
    made = rerun(probe(plan), (at,), slow(at, took_s, **more))
    return [
        msgspec.structs.replace(other, plan=plan, plan_id=plan.id),
        msgspec.structs.replace(made, kind=RoundKind.REALISM, run=90 + number),
    ]


def test_an_operation_that_another_plan_delays_is_not_measured_again() -> None:
    attempt = reruns(failed((point("file.write", node="n2", target="other"), Delay(7.0))), *measured(WRITE, 0.0004))
    assert (attempt.realism.answer, attempt.realism.runs, attempt.probe) == ("dropped", (91,), None)
    attempt = reruns(failed((SYNC, Delay())), *measured(SYNC, 10.0))
    assert (attempt.realism.answer, attempt.probe) == ("realistic", None)


@pytest.mark.parametrize(
    "other", [SYNC, point_of(event("file.write", role="client")), point_of(event("file.write", stack=("app:f#1",)))]
)
def test_another_operation_role_or_call_stack_is_measured_itself(other: Point) -> None:
    attempt = reruns(failed((other, Delay())), *measured(WRITE, 0.0004))
    assert (attempt.realism.answer, attempt.probe) == ("unchecked", probe(attempt.plan))


def test_a_measurement_is_judged_by_the_delay_of_the_plan_that_uses_it() -> None:
    gave_up = measured(CONNECT, 6.0, error="TimeoutError")
    assert reruns(failed((CONNECT, Delay(5.0))), *gave_up).realism.answer == "realistic"
    assert reruns(failed((CONNECT, Delay(8.0))), *gave_up).realism.answer == "dropped"


def test_one_unrealistic_delay_of_several_decides_and_realistic_ones_decide_together() -> None:
    both = failed((WRITE, Delay()), (SYNC, Delay()))
    assert reruns(both, *measured(WRITE, 0.0004)).realism.answer == "dropped"
    assert reruns(both, *measured(SYNC, 10.0)).probe == probe(both.plan), "of the other delay nothing is known"
    again = failed((SYNC, Delay()), (CONNECT, Delay()))
    attempt = reruns(again, *measured(SYNC, 10.0), *measured(CONNECT, 10.0, 2))
    assert (attempt.realism.answer, attempt.realism.runs, attempt.probe) == ("realistic", (91, 92), None)


def test_a_run_that_measured_nothing_says_nothing_about_other_plans() -> None:
    first, made = measured(WRITE, 0.0004)
    broken = msgspec.structs.replace(made, status="broken")
    assert reruns(failed((WRITE, Delay(7.0))), first, broken).probe is not None


# --- what is run


def test_a_plan_without_a_delay_is_not_asked_about() -> None:
    assert known(failed((WRITE, Crash()))) == (Realism(), None)


def test_delays_are_replaced_by_holds_before_the_same_operations_and_other_faults_stay() -> None:
    at, then = At(WRITE, "after", 2), Then(At(SEND), At(RECV, "after"))
    plan = Plan((Step(At(SEND), Crash()), Step(at, Delay()), Step(then, Delay(mode="operation"), At(SYNC))), 7)
    made = probe(plan)
    assert made.seed == 7
    assert made.steps == (
        Step(At(SEND), Crash()),
        Step(At(WRITE, "before", 2), Hold("delay")),
        Step(Then(At(SEND), At(RECV)), Hold("delay-operation")),
    )
    assert delays_of(plan) == (1, 2)
    bound = Plan((plan.steps[0], Step(at, Delay(), same="node")))
    assert [step.same for step in probe(bound, {1: LEAD}).steps] == [msgspec.UNSET, "node", "node"]
    assert probe(Plan((Step(FirstUnseen(("op",), place="after"), Delay()),))).steps[0].trigger == FirstUnseen(("op",))


def test_one_run_that_fires_there_is_enough() -> None:
    first = failed((SYNC, Delay()))
    said, todo = known(first)
    assert (said.answer, todo) == ("unchecked", probe(first.plan))
    elsewhere = rerun(probe(first.plan), (WRITE,), slow(WRITE, 0.0))
    broken = rerun(probe(first.plan), (SYNC,), slow(SYNC, 10.0), status="broken")
    assert known(first, elsewhere)[1] == probe(first.plan)
    assert known(first, broken)[1] == probe(first.plan)
    assert known(first, elsewhere, rerun(probe(first.plan), (SYNC,), slow(SYNC, 10.1)))[0].answer == "realistic"


def test_two_runs_that_did_not_fire_there_are_enough_too() -> None:
    first = failed((SYNC, Delay()))
    said, todo = known(first, *[rerun(probe(first.plan), ())] * 2)
    assert (said.answer, said.runs, todo) == ("unchecked", (9, 9), None)
    assert "was not reached again" in said.text


# --- what follows


def test_what_took_as_long_as_the_device_is_slow_is_realistic() -> None:
    said = once(SYNC, 10.0, waited=("fsync data waited 10.0 s",))
    assert said.answer == "realistic"
    assert said.text == "the disk was slow by 10 s and the operation took 10.0 s (fsync data waited 10.0 s)"
    assert "had not ended after 10.5 s" in once(SYNC, 10.5, ended=False).text


def test_what_took_less_is_dropped_with_its_reason() -> None:
    said = once(WRITE, 0.0004)
    assert said.answer == "dropped"
    assert said.text == (
        "the disk was slow by 10 s and the operation took 0.4 ms: "
        "written data waits in memory, so a slow disk does not delay it"
    )
    assert "sent data waits" in once(SEND, 0.0001).text
    assert once(SYNC, 9.99).answer == "dropped"


def test_what_gives_up_by_itself_before_the_delay_would_be_over_is_dropped_too() -> None:
    said = once(SEND, 2.0, error="TimeoutError")
    assert said.answer == "dropped"
    assert "took 2.0 s, ended by TimeoutError: it does not wait that long for the network" in said.text
    assert once(RECV, 2.0, error="TimeoutError").answer == "dropped", "nothing has come"


@pytest.mark.parametrize("error", ["TimeoutError", "timeout", "ETIMEDOUT", "SocketTimeoutException"])
def test_what_waits_as_long_as_the_delay_until_its_own_limit_is_realistic(error: str) -> None:
    said = once(RECV, 5.0, error=error)
    assert said.answer == "realistic"
    assert said.text == (
        "the network was slow by 10 s and the operation waited 5.0 s, at least the delay of 5 s, "
        f"until its own time limit ended it ({error})"
    )


def test_a_delay_at_the_wire_respects_the_clients_own_limit() -> None:
    at = point("db.write", target="SET key peer:n2")
    at_call = failed((at, Delay(5.0, "operation", "wire")))
    first = msgspec.structs.replace(at_call, lasted=(Lasted(0, 5.0, at_wire=True),))
    ran = rerun(probe(first.plan), (at,), SlowOp(0, "network", 10.0, "db.write", 2.0, error="TimeoutError"))
    said, _ = known(first, ran)
    assert said.answer == "realistic"
    assert known(at_call, ran)[0].answer != "realistic", "the agent did not reach the wire, so it held the call for too long"
    assert said.text.endswith("the operation waited 2.0 s until its own time limit ended it (TimeoutError)")


def test_what_another_error_ends_did_not_wait_to_its_limit() -> None:
    assert once(SYNC, 6.0, error="EIO").answer == "dropped"
    assert once(SYNC, 6.0).answer == "dropped"


def test_a_time_that_says_nothing_drops_nothing() -> None:
    assert once(WRITE, 0.0, unknown="n1 died") == Realism("unchecked", "n1 died", (9,))


def test_what_is_received_after_a_poll_is_dropped() -> None:
    said = once(RECV, 0.0001, polled=True)
    assert said.answer == "dropped"
    assert "it returns as soon as any data has arrived" in said.text


def test_bytes_that_are_late_below_a_program_which_goes_on_are_what_a_slow_network_does() -> None:
    assert once(RECV, 0.0001, "operation", polled=True, unblocked=True).answer == "realistic"
    assert once(SEND, 0.0001, "operation", unblocked=True).answer == "realistic"
    assert once(SEND, 0.0001, "operation").answer == "dropped", "its thread has waited"
    assert once(SEND, 0.0001, "thread", unblocked=True).answer == "dropped"


@pytest.mark.parametrize("at", [ACCEPT, CONNECT])
def test_connecting_and_accepting_hold_the_thread_whatever_the_mode(at: Point) -> None:
    assert once(at, 0.0001, "operation", polled=True, unblocked=True).answer == "dropped"


def test_where_it_is_not_known_whether_a_connection_blocks_nothing_is_dropped() -> None:
    said = once(SEND, 0.0001, "operation", unblocked=None)
    assert (said.answer, "it is unknown whether" in said.text) == ("unchecked", True)
    assert once(SEND, 0.0001, "thread", unblocked=None).answer == "dropped", "it holds the thread anyway"
    assert once(SEND, 10.0, "operation", unblocked=None).answer == "realistic"


def test_what_had_arrived_before_says_nothing_where_nobody_was_asked() -> None:
    said = once(RECV, 0.0001)
    assert said.answer == "unchecked"
    assert "had arrived before" in said.text


@pytest.mark.parametrize(("took_s", "answer"), [(20.0, "realistic"), (0.0001, "dropped")])
def test_an_answer_is_waited_for_with_a_network_that_is_slow_before_the_question(took_s: float, answer: str) -> None:
    first = failed((RECV, Delay()))
    plain = rerun(probe(first.plan), (RECV,), slow(RECV, 0.0001, lead=LEAD))
    said, todo = known(first, plain)
    assert said.answer == "unchecked"
    assert todo is not None
    assert [step.trigger for step in todo.steps] == [At(SEND, "before", 3), At(RECV)]
    led = rerun(todo, (SEND, RECV), slow(SEND, 0.0), slow(RECV, took_s, 1))
    said, todo = known(first, plain, led)
    assert (said.answer, todo, said.runs) == (answer, None, (9, 9))


def test_if_the_question_is_not_met_again_it_stays_unchecked() -> None:
    first = failed((RECV, Delay()))
    plain = rerun(probe(first.plan), (RECV,), slow(RECV, 0.0001, lead=LEAD))
    todo = known(first, plain)[1]
    assert todo is not None
    missed = rerun(todo, (SEND,), slow(SEND, 0.0))
    assert known(first, plain, missed)[1] == todo
    said, more = known(first, plain, missed, missed)
    assert (said.answer, more) == ("unchecked", None)


def test_one_delay_that_cannot_be_is_enough_to_drop_a_plan_of_several() -> None:
    first = failed((SYNC, Delay()), (SEND, Crash()), (WRITE, Delay()))
    plan = probe(first.plan)
    landed = (SYNC, SEND, WRITE)
    for took_s, answer in ((0.1, "dropped"), (11.0, "realistic")):
        said, todo = known(first, rerun(plan, landed, slow(SYNC, 12.0), slow(WRITE, took_s, 2)))
        assert (said.answer, todo) == (answer, None)
    missing = rerun(plan, landed, slow(SYNC, 12.0))
    assert known(first, missing)[1] == plan


def test_delays_that_never_took_effect_are_not_asked_about() -> None:
    both = failed((SYNC, Delay()), (point("lock.acquire"), Delay()))
    first = msgspec.structs.replace(both, landed=((0, SYNC),))
    plan = probe(first.plan)
    assert known(first)[1] == plan
    assert len(plan.steps) == 2, "it is the same plan"
    for landed in ((SYNC,), (SYNC, point("lock.acquire"))):
        said, todo = known(first, rerun(plan, landed, slow(SYNC, 10.0)))
        assert (said.answer, todo) == ("realistic", None)
    assert known(msgspec.structs.replace(both, landed=())) == (Realism(), None)


# --- what cannot be known


@pytest.mark.parametrize(
    ("at", "mode", "part"),
    [
        (point("file.open"), "thread", "does not slow reads"),
        (point("db.read", target="SELECT jobs"), "thread", "does not slow reads"),
        (point("msg.send", target="Vote peer:n2"), "operation", "only this message is delayed"),
        (point("client.op"), "thread", "does not reach a device"),
        (point("lock.acquire"), "thread", "does not reach a device"),
    ],
)
def test_some_operations_are_not_checked(at: Point, mode: str, part: str) -> None:
    said, todo = known(failed((at, Delay(5.0, mode))))  # type: ignore[arg-type]
    assert (said.answer, todo) == ("unchecked", None)
    assert part in said.text


def test_where_a_device_cannot_be_slow_it_is_said() -> None:
    lacking = {"disk": "", "network": "a slow network needs root"}
    said, todo = known(failed((SEND, Delay())), lacking=lacking)
    assert (str(said), todo) == ("not checked: a slow network needs root", None)
    assert known(failed((SYNC, Delay())), lacking=lacking)[1] is not None
    store = point("db.write", target="INSERT jobs")
    assert known(failed((store, Delay())), lacking=lacking)[0].text == "a slow network needs root"


def test_what_is_known_stays_known_where_a_device_cannot_be_slow() -> None:
    first, lacking = failed((RECV, Delay())), {"disk": "", "network": "a slow network needs root"}
    quick = rerun(probe(first.plan), (RECV,), slow(RECV, 0.0001, polled=True))
    assert known(first, quick, lacking=lacking) == known(first, quick)
    half = rerun(probe(first.plan), (RECV,), slow(RECV, 0.0001, lead=LEAD))
    assert known(first, half, lacking=lacking) == (Realism("unchecked", "a slow network needs root", (9,)), None)


def test_times_are_short() -> None:
    assert [seconds(t) for t in (0.00041, 0.9, 10.04)] == ["0.4 ms", "900.0 ms", "10.0 s"]


def test_memory_of_a_mapped_file_is_written_without_the_device() -> None:
    assert once(point("file.map_write"), 0.00001).answer == "dropped"


@pytest.mark.parametrize("op", ["file.read", "file.map_read"])
def test_a_file_that_the_process_created_is_read_without_the_device(op: str) -> None:
    own, unknown = (once(point(op), 0.00001, cached=cached) for cached in (True, False))
    assert (own.answer, unknown.answer) == ("dropped", "unchecked")
    assert "created the file itself" in own.text
    assert "does not slow reads" in unknown.text


# --- chance


def test_a_short_operation_is_measured_again_before_its_delay_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(realism, "MEASUREMENTS", 3)
    first = failed((SEND, Delay()))
    short, long = (rerun(probe(first.plan), (SEND,), slow(SEND, took_s)) for took_s in (0.001, 10.5))
    answers = [known(first, *runs) for runs in ([short], [short, short], [short, short, short], [short, long])]
    assert [(said.answer, todo is None) for said, todo in answers] == [
        ("unchecked", False),
        ("unchecked", False),
        ("dropped", True),
        ("realistic", True),
    ]


def test_runs_that_never_fire_there_do_not_go_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(realism, "MEASUREMENTS", 3)
    first = failed((SEND, Delay()))
    short = rerun(probe(first.plan), (SEND,), slow(SEND, 0.001))
    elsewhere = rerun(probe(first.plan), (RECV,), slow(RECV, 0.001))
    assert known(first, short, *[elsewhere] * 4)[1] is None
