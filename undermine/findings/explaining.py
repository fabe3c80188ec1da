"""Explains a finding in plain words: a title as a maintainer would write it, a sentence that says what happened, and the window.

Made from the plan, the receipts, the window and the failing verdict. Pure. Never cleans or escapes a text of the target: whoever
shows it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from undermine.checkers.compose import name_of
from undermine.findings.grouping.groups import template
from undermine.model.faults import (
    Corrupt,
    Crash,
    Delay,
    Drop,
    Error,
    Injection,
    Partition,
    Pause,
    PowerLoss,
    Reboot,
    fault_kind,
    is_fault,
    nodes_of,
    restart_after_s,
    row_of,
)
from undermine.model.finding import Bound, Finding, Window, landings
from undermine.model.plan import (
    Lasted,
    Plan,
    Step,
    Then,
    When,
    describe_trigger,
    fault_words,
    final_at,
    place_of,
    point_at,
)
from undermine.model.point import CLIENT, PHASE, Point, is_standard
from undermine.model.run import RunRecord, Verdict

_MASKS = {"<n>": "N", "<hex>": "N", "<path>": "PATH", "<*>": "…"}
"""Words for the masks in symptoms and in names of files."""
_NOUNS = {"power": "power loss"}
"""Words for kinds of faults whose names are not nouns for what happens."""
_FROM_THEN_ON = {"file": "for this file", "disk": "for the whole disk", "peer": "with this peer"}
"""By scope of an error: for which other operations it holds."""
LineOf = Callable[[str, str], int]
"""The source line of a call site of a role; 0 if it isn't found."""
NameOf = Callable[[str], str]
"""The words for a node."""
FramesOf = Callable[[Point], Sequence[str]]
"""The functions of a point's call stack, innermost first; none if they aren't known."""


class Explanation(msgspec.Struct, frozen=True):
    """A finding in words."""

    title: str
    """The title that a maintainer would give the issue."""
    sentence: str
    """What happened."""
    window: str = ""
    """At which other moments the same happens; "" if that isn't known."""


class _Verb(NamedTuple):
    """The forms of a verb with its preposition: to `send data to`, `sent data to`, `sending data to`."""

    base: str
    past: str
    gerund: str


_VERBS = {
    "file.open": _Verb("open", "opened", "opening"),
    "file.create": _Verb("create", "created", "creating"),
    "file.read": _Verb("read", "read", "reading"),
    "file.write": _Verb("write to", "wrote to", "writing to"),
    "file.map_read": _Verb("read the mapped", "read the mapped", "reading the mapped"),
    "file.map_write": _Verb("write to the mapped", "wrote to the mapped", "writing to the mapped"),
    "file.fsync": _Verb("sync", "synced", "syncing"),
    "file.truncate": _Verb("truncate", "truncated", "truncating"),
    "file.close": _Verb("close", "closed", "closing"),
    "file.unlink": _Verb("remove", "removed", "removing"),
    "file.mkdir": _Verb("create the folder", "created the folder", "creating the folder"),
    "file.rmdir": _Verb("remove the folder", "removed the folder", "removing the folder"),
    "file.stat": _Verb("look at", "looked at", "looking at"),
    "file.list": _Verb("list", "listed", "listing"),
    "file.rename": _Verb("rename", "renamed", "renaming"),
    "net.connect": _Verb("connect to", "connected to", "connecting to"),
    "net.accept": _Verb("accept a connection from", "accepted a connection from", "accepting a connection from"),
    "net.close": _Verb("close the connection to", "closed the connection to", "closing the connection to"),
    "net.send": _Verb("send data to", "sent data to", "sending data to"),
    "net.recv": _Verb("receive data from", "received data from", "receiving data from"),
    "msg.send": _Verb("send", "sent", "sending"),
    "msg.recv": _Verb("receive", "received", "receiving"),
    "db.read": _Verb("run", "ran", "running"),
    "db.write": _Verb("run", "ran", "running"),
    "db.commit": _Verb("commit", "committed", "committing"),
}
_Form = Literal["base", "past", "gerund"]


def doing(point: Point, form: _Form, name_of: NameOf = str) -> str:
    """The operation in words: to `sync shard/snapshot.json`, `sent data to s3`, `running SET key`. `name_of` returns the words
    for a peer."""
    verb = _VERBS.get(point.get("op"))
    if point.get("op") == "file.rename":
        old, _, new = _unmasked(point.get("target")).partition(" -> ")
        if new and old.rpartition("/")[2].lstrip(".").startswith(new.rpartition("/")[2]):  # a temporary file takes its place
            return f"{getattr(_Verb('replace', 'replaced', 'replacing'), form)} `{new}`"
    if verb is None:
        plain = point.get("op") or "operation"
        return f"{getattr(_Verb('do', 'did', 'doing'), form)} `{plain}`"
    return f"{getattr(verb, form)} {_object(point, name_of)}"


def _object(point: Point, name_of: NameOf) -> str:
    target, kind, peer = _unmasked(point.get("target")), point.message_kind, point.peer and name_of(point.peer)
    if point.kind == "msg":
        way = "to" if point.get("op") == "msg.send" else "from"
        return f"`{kind or 'a message'}`" + (f" {way} {peer}" if peer else "")
    if point.kind == "net":
        return peer or "a peer"
    if point.get("op") == "file.rename" and " -> " in target:
        return "`{}` to `{}`".format(*target.split(" -> ", 1))
    if point.kind == "file":
        return f"`{target}`" if target else "a file"
    return f"`{target}`" if target else "a command"


# --- the whole


def explained(
    finding: Finding, record: RunRecord | None, line_of: LineOf = lambda *_: 0, frames_of: FramesOf = lambda _: ()
) -> Explanation:
    """The finding in words. `record` is that of the run that shows it best, if it can be read. `line_of` returns the source line
    of a call site, if that is found, and `frames_of` the functions that lead to a point."""
    plan = finding.smallest or finding.plan
    if record and record.exchanged:  # the verdict has the names of the run
        plan = msgspec.structs.replace(plan, steps=tuple(step.renamed(record.exchanged) for step in plan.steps))
    symptom, colon, more = _unmasked(finding.symptom).partition(": ")
    own = own_verdict(finding)
    story = _Story(plan, finding.window, record, frames_of, symptom.partition(" ")[0], own.text.partition(" ")[0] if own else "")
    title = " ".join(filter(None, (symptom[:1].upper() + symptom[1:], story.condition())))
    sentence = f"{story.told()}{_outcome(finding, plan, record)}"
    return Explanation(f"{title}{colon}{more}", sentence, window_words(finding, line_of))


def own_verdict(finding: Finding) -> Verdict | None:
    """The failing verdict with the finding's own symptom; else the one that gave the finding its title."""
    failing, own = (verdict for verdict in finding.verdicts if verdict.answer == "fail"), template(finding.symptom)
    return next((verdict for verdict in failing if template(name_of(verdict)) == own), finding.main_verdict)


def _unmasked(text: str) -> str:
    for mask, word in _MASKS.items():
        text = text.replace(mask, word)
    return text


def _outcome(finding: Finding, plan: Plan, record: RunRecord | None) -> str:
    own = own_verdict(finding)
    text = (own.text if own else "") or finding.title
    restarted = any(restart_after_s(step.fault) is not None for step in plan.steps)
    # healing starts a crashed node again, too
    restarted |= any(end.incarnation > 1 and text.startswith(f"{end.node} ") for end in (record.exits if record else ()))
    return f"; {'after the restart' if restarted else 'then'}: {text}"


def window_words(finding: Finding, line_of: LineOf = lambda *_: 0) -> str:
    """`any crash of s3 after A and before B fails; before A and after B it passes`; "" if no bound is known."""
    window = finding.window
    if window is None or not (window.opens or window.closes):
        return ""
    fault = (finding.smallest or finding.plan).steps[-1].fault
    kind = fault_kind(fault)
    hit = _listed(nodes_of(fault)) or window.point.get("node")
    whose = "it" if hit == window.point.get("node") else window.point.get("node")
    opens, closes = window.opens, window.closes
    opened, closed = window.sites
    inside = [f"after {whose} {_bound(opens, opened, line_of)}"] if opens else []
    inside += [f"before {whose} {_bound(closes, closed, line_of)}"] if closes else []
    outside = [f"before {'that' if not closes else 'the first'}"] if opens else []
    outside += [f"after {'that' if not opens else 'the second'}"] if closes else []
    return f"any {_NOUNS.get(kind, kind)} of {hit} {' and '.join(inside)} fails; {' and '.join(outside)} it passes"


def _bound(bound: Bound, site: str, line_of: LineOf) -> str:
    """The operation, with the function of this call site and the line, if it is known."""
    function = site.partition("#")[0]
    line = bound.line if site == bound.point.get("loc") else line_of(site, bound.point.get("role"))
    return doing(bound.point, "past") + (f" (`{function}`{f', line {line}' if line else ''})" if function else "")


class _Story:
    """The steps of a plan in words: as the condition of a title, and as what happened in one run."""

    def __init__(
        self,
        plan: Plan,
        window: Window | None,
        record: RunRecord | None,
        frames_of: FramesOf,
        subject: str = "",
        subject_node: str = "",
    ) -> None:
        """`subject` is the first word of the symptom, and `subject_node` that of the verdict. If they are a role and one of its
        nodes, a title says `it` for this node and `another` for others of its role."""
        self._frames_of = frames_of
        self._plan = plan
        self._window = window
        numbers = dict(_same_steps(record.plan, plan)) if record else {}
        self._points = {numbers[step]: point for step, point in landings(record) if step in numbers} if record else {}
        self._hit: dict[int, list[str]] = {}
        for receipt in record.receipts if record else ():
            if receipt.proves and receipt.step in numbers:
                nodes = self._hit.setdefault(numbers[receipt.step], [])
                nodes += [receipt.node] if receipt.node not in nodes else []
        lasted = record.timing.faults if record else ()
        self._lasted = {numbers[one.step]: one for one in lasted if one.step in numbers}
        self._roles = {info.id: info.role for info in record.nodes} if record else {}
        points = [self._point(number, step) for number, step in self._faults()]
        role = self._roles.get(subject_node) or next((p.get("role") for p in points if p.get("node") == subject_node), "")
        self._subject = subject_node if subject and role == subject and len(points) == 1 else ""

    def condition(self) -> str:
        """`if a store is killed after renaming A and before creating B`"""
        parts = [self._condition_of(number, step) for number, step in self._faults()]
        return f"if {' and then '.join(parts)}" if parts else ""

    def told(self) -> str:
        """`s3 was killed after it renamed to A and before it created B`"""
        parts = [self._told_of(number, step) for number, step in self._faults()]
        said = ", then ".join(parts) or "no fault was injected"
        return said[:1].upper() + said[1:] if said.startswith(("a ", "one ", "no ", "bytes ")) else said

    def _faults(self) -> Iterator[tuple[int, Step]]:
        return ((number, step) for number, step in enumerate(self._plan.steps) if is_fault(step.fault))

    def _point(self, number: int, step: Step) -> Point:
        return self._points.get(number) or point_at(step.trigger)

    # --- the title

    def _condition_of(self, number: int, step: Step) -> str:
        point, fault = self._point(number, step), step.fault
        actor = self._role_of(point)
        if row_of(fault).hits == "operation":
            return _operation_condition(fault, actor, doing(point, "gerund", self._peer_of(point)) + self._in(point))
        hit = nodes_of(fault)
        effect = _effect(fault, self._roles_of(hit) if hit else actor, len(hit))
        return " ".join(filter(None, (effect, self._when(number, step, own=not self._elsewhere(number, step), form="gerund"))))

    def _role_of(self, point: Point) -> str:
        node = point.get("node")
        if node and node in (self._subject, *self._roles):
            return self._role(node)
        return f"a {point.get('role')}" if point.get("role") else node or "a node"

    def _peer_of(self, point: Point) -> NameOf:
        """Return the words for the peer of an operation: `another store` is of the role that makes the operation."""
        node = point.get("node")

        def words(peer: str) -> str:
            role = self._roles.get(peer, "")
            return f"another {role}" if role and peer != node and self._roles.get(node) == role else self._role(peer)

        return words

    def _roles_of(self, nodes: Sequence[str]) -> str:
        """`the master and 2 stores`, `all nodes`"""
        if len(nodes) > 1 and {*nodes} == {*self._roles}:
            return "all nodes"
        words = {self._role(node): self._roles.get(node, "") for node in sorted(nodes, key=lambda node: node != self._subject)}
        counts = Counter(map(self._role, nodes))
        return _listed([f"{counts[word]} {role}s" if counts[word] > 1 else word for word, role in words.items()])

    def _role(self, node: str) -> str:
        """`a store`, or `the master` if its role has one node; for the subject of the title `it`, and `another` for its like."""
        role = self._roles.get(node, "")
        if self._subject and (node == self._subject or (role and role == self._roles.get(self._subject))):
            return "it" if node == self._subject else f"another {role}"
        return f"a {role}" if role and Counter(self._roles.values())[role] > 1 else f"the {role}" if role else node

    # --- what happened

    def _told_of(self, number: int, step: Step) -> str:
        point, fault = self._point(number, step), step.fault
        lasted = self._lasted.get(number)
        hit = self._hit.get(number) or nodes_of(fault)
        node = _listed(hit) or point.get("node") or self._role_of(point)
        if row_of(fault).hits == "operation":
            return _operation_told(fault, node, point, self._in(point), lasted)
        own = not self._elsewhere(number, step)
        begun = f"{node} {_happened(fault, len(hit), lasted)}"
        ended = f", until {describe_trigger(step.until).removeprefix('before ')}" if step.until else ""
        return " ".join(filter(None, (begun, self._when(number, step, own=own, form="past")))) + _later(fault) + ended

    def _elsewhere(self, number: int, step: Step) -> bool:
        """Does the fault hit other nodes than the one at whose operation it fires?"""
        named = list(nodes_of(step.fault))
        hit = self._hit.get(number) or named
        return bool(named) and hit != [self._point(number, step).get("node")]

    def _when(self, number: int, step: Step, *, own: bool, form: _Form) -> str:
        point = self._point(number, step)
        in_title = form == "gerund"
        who = "it" if own else (not in_title and point.get("node")) or self._role_of(point)
        name_of = self._peer_of(point) if in_title else str
        window = self._window if number == len(self._plan.steps) - 1 else None
        if window and (window.opens or window.closes):
            return _between(window, who, form, name_of, own=own)
        if point.get("op") == PHASE:
            return f"while the cluster {'is' if in_title else 'was'} at rest"
        if point.get("node") == CLIENT:
            at, moment = f" to {point.get('target')}" if point.get("target") else "", final_at(step.trigger)
            which = f"the {_ordinal(moment.nth)}" if moment else "a"
            return f"{place_of(step.trigger)} {which} `{point.get('loc')}` of clients{at}"
        if not point.items or isinstance(step.trigger, When):  # at which operation a state is noticed is an accident
            return describe_trigger(step.trigger)
        final = _clause(place_of(step.trigger), who, point, form, name_of, own=own) + self._in(point)
        first = step.trigger.first.point if isinstance(step.trigger, Then) else Point(())
        if first.kind not in ("file", "net", "msg", "db") or not first.get("target"):
            return final
        same = step.trigger.same if isinstance(step.trigger, Then) else None
        if not same and first.get("node") != point.get("node"):  # the first operation may be another node's
            other = (not in_title and first.get("node")) or self._role_of(first)
            return f"{_clause('after', other, first, form, name_of, own=False)} and {final}"
        return f"{_clause('after', who, first, form, name_of, own=own)} and {final}"

    def _in(self, point: Point) -> str:
        """The innermost function in another module than the call site: the function of the call site is often a helper. The
        outermost one only starts a thread."""
        own = point.get("loc").partition("#")[0]
        module = own.partition(":")[0]
        callers = (each for each in self._frames_of(point)[:-1] if each.partition(":")[0] != module and not is_standard(each))
        function = next(callers, own if self._frames_of(point) else "")
        return f" in `{function}`" if function else ""


def _listed(names: Sequence[str]) -> str:
    """`m1, s1 and s2`"""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _same_steps(shown: Plan, told: Plan) -> Iterator[tuple[int, int]]:
    """The steps of the plan that was run that are steps of the other one, too, with their numbers in both."""
    for number, step in enumerate(told.steps):
        moment = final_at(step.trigger) or step.trigger
        for other, there in enumerate(shown.steps):
            if (final_at(there.trigger) or there.trigger) == moment:
                yield other, number


def _between(window: Window, who: str, form: _Form, name_of: NameOf, *, own: bool) -> str:
    """`after syncing A and before creating B`. If both read alike, it names the function that does both."""
    bounds = (("after", window.opens), ("before", window.closes))
    clauses = [_clause(word, who, bound.point, form, name_of, own=own) for word, bound in bounds if bound]
    function = window.sites[0].partition("#")[0]
    if len(clauses) < 2 or clauses[0].partition(" ")[2] != clauses[1].partition(" ")[2]:
        return " and ".join(clauses)
    does = "does" if form == "gerund" else "did"
    return f"{clauses[0]} and before it {does} so again" + (f" in `{function}`" if function else "")


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _clause(word: str, who: str, point: Point, form: _Form, name_of: NameOf, *, own: bool) -> str:
    """`after it synced A`; in a title `after syncing A`"""
    if form == "gerund" and own:
        return f"{word} {doing(point, 'gerund', name_of)}"
    return f"{word} {who} {doing(point, 'past', name_of)}"


def _effect(fault: Injection, hit: str, number: int) -> str:
    """What the fault does to nodes, for a title: `a store is killed`."""
    be = "is" if number < 2 else "are"
    match fault:
        case Pause():
            return f"{hit} {be} frozen"
        case PowerLoss():
            return f"{hit} lose{'s' if number < 2 else ''} power"
        case Partition():
            return f"{hit} {be} cut off"
        case Crash() | Reboot():
            return f"{hit} {be} killed" + (" and restarted" if restart_after_s(fault) is not None else "")
    return f"{fault_words(fault)} hits {hit}"


def _happened(fault: Injection, number: int, lasted: Lasted | None) -> str:
    be = "was" if number < 2 else "were"
    seconds = f" for {lasted.seconds:.1f} s" if lasted else ""
    match fault:
        case Pause():
            return f"{be} frozen{seconds}"
        case PowerLoss():
            return "lost power"
        case Partition():
            others = _listed(fault.others) or "all others"
            ways = {"both": f"cut off from {others}", "out": f"unable to reach {others}", "in": f"out of reach of {others}"}
            return f"{be} {ways[fault.direction]}{seconds}"
        case Crash() | Reboot():
            return f"{be} killed"
    return f"{be} hit by {fault_words(fault)}{seconds}"


def _later(fault: Injection) -> str:
    """What the tool did about it afterwards."""
    after_s = restart_after_s(fault)
    return f", and started again {after_s:g} s later" if after_s is not None else ""


def _operation_condition(fault: Injection, who: str, work: str) -> str:
    match fault:
        case Delay():
            return f"{who} is slow in {work}"
        case Error():
            return f"{work} fails with {fault.error} on {who}"
        case Drop():
            return f"a message is lost while {who} is {work}"
        case Corrupt():
            return f"bytes are corrupted while {who} is {work}"
    return f"{fault_words(fault)} hits {who} while it is {work}"


def _operation_told(fault: Injection, node: str, point: Point, where: str, lasted: Lasted | None) -> str:
    work, done = doing(point, "base") + where, doing(point, "past") + where
    match fault:
        case Delay():
            took = f": the operation took {lasted.seconds:.1f} s" if lasted else ""
            return f"{node} was slow to {work}{took}"
        case Error():
            more = "" if fault.scope == "once" else f", and from then on {_FROM_THEN_ON[fault.scope]}"
            return f"{node} got {fault.error} when it tried to {work}{more}"
        case Drop():
            return f"a message was lost when {node} tried to {work}"
        case Corrupt():
            return f"one byte was changed when {node} {done}" if fault.how == "flip" else f"bytes became zero when {node} {done}"
    return f"{fault_words(fault)} hit {node} when it tried to {work}"
