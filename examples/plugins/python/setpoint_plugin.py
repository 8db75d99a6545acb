"""Plugins for Setpoint in Python: the handshake, TLS, the session and its answers.

An author writes a Filter, a Drainer or a JobType, or several, and calls serve:

    class Disk(Filter):
        def compile(self, request):
            wanted = request.settings["disk"]
            def match(node):
                if node.labels.get("disk") != wanted:
                    return Stall("wrong_disk", detail=wanted)
            return match

    serve(Disk(), name="disk", version="1.0.0", watches=["labels"], job=[Attribute("disk", "string", required=True)])

A drainer is served with serve(drainer=…), job types with serve(job_types={"name": …}).

It needs python3-grpcio and python3-protobuf of Debian, and the openssl command, which makes the certificate that the host asks for.
"""

import base64
import dataclasses
import datetime
import json
import os
import queue
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent import futures

import grpc
from google.protobuf import json_format

import plugin_pb2 as pb

COOKIE = ("SETPOINT_PLUGIN", "e4d1a1f0-setpoint-plugin")
LIFELINE = "SETPOINT_PLUGIN_LIFELINE_FD"
DEBUG = "SETPOINT_PLUGIN_DEBUG"
REATTACH = "SETPOINT_REATTACH_PLUGINS"
PROTOCOL = 1
MAX_TEXT = 1024
MAX_REASONS = 4096
FIRST_RETRY, LAST_RETRY = 1.0, 30.0

# ---- what authors use ------------------------------------------------------------------------------------------------------------


class Stall(Exception):
    """Why something cannot advance now. A filter returns or raises it: why tasks may not run on a node, or why a class cannot be compiled. A drainer keeps a
    task with it, or raises it and keeps all. A job type holds a slot with it, or raises it and holds the job."""

    def __init__(self, code, message="", detail="", clears="", evicts=False):
        super().__init__(code, message, detail)
        self.code, self.message, self.detail, self.clears, self.evicts = code, message, detail, clears, evicts


@dataclasses.dataclass(frozen=True)
class Attribute:
    """One setting, in the configuration or in a job. default is a Python value; None for none."""

    name: str
    type: str = "string"  # string, number, bool, any, or list(T), set(T), map(T)
    description: str = ""
    required: bool = False
    sensitive: bool = False
    default: object = None


@dataclasses.dataclass(frozen=True)
class Request:
    """What jobs of one class have in common. settings is None if they say nothing to this plugin."""

    job_type: str
    labels: dict
    settings: dict | None


@dataclasses.dataclass(frozen=True)
class Node:
    """A node. What the plugin does not watch is empty."""

    id: str
    name: str
    labels: dict
    attributes: dict
    hostname: str
    os: str
    arch: str
    addresses: list
    drivers: list
    milli_cpu: int
    memory: int
    units: dict
    availability: str
    state: str
    decommissioned: bool


@dataclasses.dataclass(frozen=True)
class Task:
    """A task on a node that is to be emptied. settings is None if its job says nothing to this plugin, or nothing that fits."""

    id: str
    job: str
    job_type: str
    slot: str
    priority: int
    on_drain: str
    desired: str
    observed: str
    healthy: bool
    labels: dict  # of the job
    settings: dict | None

    @property
    def wanted(self):
        """Whether the task is not told to stop yet."""
        return self.desired in ("running", "complete")


@dataclasses.dataclass(frozen=True)
class Drain:
    """A node that is to be emptied, and what is left on it. Times are in seconds; a deadline of None: there is none."""

    node: Node
    waited: float
    deadline: float | None
    tasks: list


@dataclasses.dataclass(frozen=True)
class Go:
    """A task should go: within its job's budget, or forced now. grace, in seconds, is how long it may take to stop; None: as its job says."""

    task: str
    reason: str = ""
    forced: bool = False
    grace: float | None = None
    to: str = "shutdown"  # or remove


@dataclasses.dataclass(frozen=True)
class Keep:
    """A task must not leave voluntarily, and why."""

    task: str
    stall: Stall


@dataclasses.dataclass(frozen=True)
class Drained:
    """What should leave. A task that is not named stays for now. again: ask again after so many seconds; None: when something changes."""

    go: list = ()
    keep: list = ()
    again: float | None = None


@dataclasses.dataclass(frozen=True)
class Job:
    """A job of a type that the plugin serves. settings has defaults filled in. created is when it was first submitted, in UTC."""

    name: str
    type: str
    count: int
    labels: dict
    settings: dict
    created: datetime.datetime | None


@dataclasses.dataclass(frozen=True)
class Slot:
    """A place for one task. The key tells it apart for ever. nodes are ids that it is limited to; none: any node."""

    key: str
    nodes: list = ()
    ends: bool = False  # its task is wanted at complete, not at running
    held: Stall | None = None  # starts nothing and keeps what is there, and why


@dataclasses.dataclass(frozen=True)
class Slots:
    """All slots that a job should have. again: ask again after so many seconds; None: when something changes."""

    slots: list
    again: float | None = None


class Part:
    """What filters, drainers and job types have in common."""

    def configure(self, config):
        """Takes up the configuration, a dict with defaults filled in. Raises ValueError, and changes nothing then."""

    def validate(self, request):
        """Checks what a job says to the plugin when it is submitted, beyond what the schema says. Raises ValueError or a Stall."""


class Filter(Part):
    """Decides on which nodes tasks may run."""

    def validate(self, request):
        self.compile(request)

    def compile(self, request):
        """Returns a function of a node, which returns None, a rank from -100 to 100, or a Stall; or None: the filter does not care. It may raise a Stall.

        The function must depend on the node and the request alone."""
        raise NotImplementedError


class Drainer(Part):
    """Decides what leaves a node that is to be emptied, and in which order."""

    def drain(self, request):
        """Returns what Drained says of a Drain. It is asked again whenever a task of the node changes, until the node is empty."""
        raise NotImplementedError


class JobType(Part):
    """Decides which slots a job of its type should have."""

    def slots(self, job, nodes):
        """Returns Slots, or a list of Slot: all that the job should have. A slot that is not named is unwanted. nodes are sorted by id."""
        raise NotImplementedError


def log(level, message, **pairs):
    """Writes a line to the daemon's log. level is trace, debug, info, warn or error."""
    print(json.dumps({"@level": level, "@message": message, **{k: str(v) for k, v in pairs.items()}}), file=sys.stderr, flush=True)


def told(e):
    """An exception of the author's code with where it was raised, such as KeyError('x') (plugin.py:42)."""
    frames = traceback.extract_tb(e.__traceback__)
    return (f"{e!r} ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else repr(e))[:MAX_TEXT]


# ---- settings --------------------------------------------------------------------------------------------------------------------


class Invalid(ValueError):
    """Settings that do not fit their schema."""

    def __init__(self, diagnostics):
        super().__init__("; ".join(d.summary for d in diagnostics))
        self.diagnostics = diagnostics


def diagnostic(summary, *path):
    return pb.Diagnostic(summary=summary[:MAX_TEXT], path=[pb.PathStep(attribute=p) for p in path])


def complete(schema, text):
    """Checks a JSON object against a schema and fills in defaults."""
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError) as e:
        raise Invalid([diagnostic(f"the settings are not JSON: {e}")]) from e
    if not isinstance(given, dict):
        raise Invalid([diagnostic("want a block")])
    bad, out = [], {}
    for a in schema:
        value = given.pop(a.name, None)
        if value is None and a.required:
            bad.append(diagnostic(f'"{a.name}" is required', a.name))
        elif value is None:
            if a.default is not None:
                out[a.name] = a.default
        elif not fits(a.type, value):
            bad.append(diagnostic(f"want a {a.type}", a.name))
        else:
            out[a.name] = value
    bad += [diagnostic(f'unknown setting "{key}"', key) for key in sorted(given)]
    if bad:
        raise Invalid(bad)
    return out


def fits(kind, value):
    kind, _, inner = kind.partition("(")
    inner = inner.removesuffix(")")
    if kind in ("list", "set"):
        return isinstance(value, list) and all(fits(inner, v) for v in value)
    if kind == "map":
        return isinstance(value, dict) and all(fits(inner, v) for v in value.values())
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return kind == "any" or isinstance(value, {"string": str, "bool": bool}[kind])


def schema_message(attributes):
    return pb.Schema(attributes=[
        pb.Attribute(name=a.name, type=a.type, description=a.description, required=a.required, sensitive=a.sensitive,
                     default_json="" if a.default is None else json.dumps(a.default))
        for a in attributes
    ])


# ---- one conversation ------------------------------------------------------------------------------------------------------------


class Standing:
    """What the answers about classes and jobs have in common: they are kept up to date with the mirror."""

    def __init__(self, plugin, name):
        self.plugin, self.name = plugin, name
        self.failure = None
        self.at = 0  # the mirror revision for which the answer holds
        self.failures, self.retry = 0, 0.0

    def catch_up(self, nodes, changed, revision):
        """Brings the answer to a revision. changed holds indexes; None: everything. Returns the messages that say what is new."""
        try:
            if self.failure is not None or self.at == 0:
                changed = None
            news, again = self.news(nodes, changed, revision)
            self.at, self.failure, self.failures = revision, None, 0
            self.retry = time.monotonic() + again if again else 0.0
            return news
        except Exception as e:  # the author's code
            log("error", "answer failed", subject=self.name, error=told(e), stack=traceback.format_exc())
            self.failure = pb.Failure(kind="error", message=told(e))
            self.retry = time.monotonic() + min(FIRST_RETRY * 2**min(self.failures, 10), LAST_RETRY)
            self.failures += 1
            return self.failed(revision)


class Judged(Standing):
    """What the filter says of one class: for every node of the mirror the number of a reason, 0 for allowed, and a rank."""

    def __init__(self, plugin, message):
        super().__init__(plugin, f"class {message.id}")
        self.id, self.revision, self.request = message.id, message.revision, message.request
        self.stall = self.match = None
        self.forget()

    def forget(self):
        self.reasons, self.ranks, self.table, self.numbers, self.sent = {}, {}, [], {}, 0

    def compile(self):
        self.forget()
        self.stall = self.match = None
        try:
            settings = None
            if self.request.settings_json:
                settings = complete(self.plugin.job, self.request.settings_json)
            self.match = self.plugin.filter.compile(Request(self.request.job_type, dict(self.request.labels), settings))
        except Stall as s:
            self.stall = s
        except Invalid as e:
            self.stall = misfit(e)

    def judge(self, index, node):
        """Judges a node and reports whether the verdict is another than before."""
        before = self.reasons.get(index), self.ranks.get(index, 0)
        try:
            said = self.match(node)
        except Stall as s:
            said = s
        rank = 0
        if isinstance(said, Stall):
            reason = self.number(said)
        else:
            reason, rank = 0, max(-100, min(100, int(said or 0)))
        self.reasons[index], self.ranks[index] = reason, rank
        return before != (reason, rank)

    def number(self, s):
        key = (s.code, s.detail or s.message, s.clears, s.evicts)
        if key not in self.numbers and len(self.table) >= MAX_REASONS:
            key = (s.code, "", "", s.evicts)
        if key not in self.numbers:
            self.table.append(pb.Rejection(code=self.plugin.code(key[0]), detail=key[1][:MAX_TEXT], clears=key[2][:MAX_TEXT], evicts=key[3]))
            self.numbers[key] = len(self.table)
        return self.numbers[key]

    def failed(self, _revision):
        return [self.says(failure=self.failure)]

    def news(self, nodes, changed, _revision):
        if changed is None:
            self.compile()
        return self.verdicts(nodes, changed), None

    def verdicts(self, nodes, changed):
        if self.match is None:
            if changed is not None:
                return []
            if self.stall is not None:
                return [self.says(stall=self.plugin.stall(self.stall))]
            return [self.says(indifferent=pb.Indifferent())]
        if changed is None:
            for index, node in nodes.items():
                self.judge(index, node)
            return self.full(nodes)
        flips = []
        for index, fresh in sorted(changed.items()):
            if index not in nodes:
                self.reasons.pop(index, None)
                self.ranks.pop(index, None)
            elif self.judge(index, nodes[index]) or fresh:
                flips.append(index)
        return self.flips(flips) if flips else []

    def says(self, more=False, **answer):
        return pb.ClassVerdict(**{"class": self.id}, class_revision=self.revision, more=more, **answer)

    def full(self, nodes):
        """An answer about all nodes: a bitmap, and what is refused in as many parts as it takes."""
        size = max(nodes, default=-1) + 1
        bits = bytearray((size + 7) // 8)
        for index in nodes:
            if self.reasons[index] == 0:
                bits[index // 8] |= 1 << index % 8
        ranks = [self.ranks.get(i, 0) for i in range(size)] if any(self.ranks.values()) else []
        head = self.says(full=pb.FullVerdict(allowed=bytes(bits), ranks=ranks))
        rest = self.flips([i for i in sorted(nodes) if self.reasons[i] != 0], sizes=[head.ByteSize()])
        head.more = bool(rest)
        return [head] + rest

    def flips(self, indexes, sizes=()):
        """Verdicts about some nodes, in parts that fit into a message."""
        fresh, self.sent = self.table[self.sent:], len(self.table)
        limit, parts = self.plugin.room, []
        part, size = pb.FlipVerdict(), 0
        for entry in fresh + indexes:
            step = entry.ByteSize() + 6 if isinstance(entry, pb.Rejection) else 12
            if size + step > limit and size > 0:
                parts.append(part)
                part, size = pb.FlipVerdict(), 0
            size += step
            if isinstance(entry, pb.Rejection):
                part.rejections.append(entry)
                continue
            part.nodes.append(entry)
            part.reasons.append(self.reasons[entry])
            part.ranks.append(self.ranks[entry])
        if size > 0:
            parts.append(part)
        return [self.says(flips=p, more=i < len(parts) - 1) for i, p in enumerate(parts)]


class Slotted(Standing):
    """What a job type says of one job: its slots, by key."""

    def __init__(self, plugin, message):
        super().__init__(plugin, f"job {message.name}")
        self.message = message
        self.told, self.held = None, False  # the slots that were named, and whether something else was said since

    def ask(self, nodes):
        m = self.message
        created = None
        if m.created_unix_ns:
            created = datetime.datetime.fromtimestamp(m.created_unix_ns / 1e9, datetime.timezone.utc)
        try:
            settings = complete(self.plugin.job, m.settings_json)
        except Invalid as e:
            raise misfit(e) from e
        job = Job(m.name, m.type, m.count, dict(m.labels), settings, created)
        said = self.plugin.job_types[m.type].slots(job, sorted(nodes.values(), key=lambda n: n.id))
        return said if isinstance(said, Slots) else Slots(list(said or ()))

    def failed(self, revision):
        self.held = True
        return [self.says(revision, delta=True, failure=self.failure)]

    def news(self, nodes, changed, revision):
        if changed is not None and not changed:
            return [], max(self.retry - time.monotonic(), 0.001) if self.retry else None
        try:
            said = self.ask(nodes)
        except Stall as s:
            self.held = True
            return [self.says(revision, delta=True, stall=self.plugin.stall(s))], None
        indexes = {node.id: index for index, node in nodes.items()}
        slots = {}
        for s in said.slots:
            if not s.key or s.key in slots:
                raise ValueError(f"slot {s.key!r} has no key, or is named twice")
            slots[s.key] = pb.Slot(key=s.key, nodes=sorted({indexes[n] for n in s.nodes}), ends=s.ends,
                                   stall=None if s.held is None else self.plugin.stall(s.held))
        renamed = {index for index, fresh in (changed or {}).items() if fresh}
        same = self.told == slots and not self.held and not any(renamed.intersection(s.nodes) for s in slots.values())
        self.told, self.held = slots, False
        return [] if same else self.parts(slots, revision, said.again), said.again

    def parts(self, slots, revision, again):
        """All slots, in as many messages as they take."""
        out, size = [self.says(revision, until_ns=int((again or 0) * 1e9))], 256
        for key in sorted(slots):
            step = slots[key].ByteSize() + 16
            if size + step > self.plugin.room and out[-1].upsert:
                out[-1].more = True
                out.append(self.says(revision, delta=True))
                size = 256
            out[-1].upsert.append(slots[key])
            size += step
        return out

    def says(self, revision, **answer):
        return pb.Slots(revision=revision, job=self.message.name, job_revision=self.message.revision, **answer)


def misfit(e):
    return Stall("settings_invalid", f"the job's settings do not fit this plugin: {e}", clears="the job's settings are corrected")


class Session:
    """One conversation with the core. Everything happens in the thread of run, one message after another."""

    def __init__(self, plugin):
        self.plugin, self.inbox = plugin, queue.Queue(64)
        self.strings, self.nodes, self.classes, self.jobs = [], {}, {}, {}
        self.revision = 0  # of the mirror; 0: not known yet
        self.changed = {}  # index: whether another node than before has it; None: everything
        self.limit = 1 << 20

    def run(self, requests):
        threading.Thread(target=self.receive, args=(requests,), daemon=True).start()
        hello = self.inbox.get()
        if hello is None or not hello.HasField("hello"):
            return
        self.limit = max(hello.hello.max_message_bytes or 1 << 20, 16 << 10)
        yield pb.FromPlugin(ready=pb.Ready(protocol=PROTOCOL))
        while True:
            try:
                message = self.inbox.get(timeout=self.rest())
            except queue.Empty:
                now = time.monotonic()
                yield from self.answers([x for x in self.subjects() if x.retry and x.retry <= now], None)
                continue
            if message is None:
                return
            if message == "changed":
                yield from self.answers(self.subjects(), None)
            else:
                yield from self.take(message)

    def receive(self, requests):
        try:
            for message in requests:
                self.inbox.put(message)
        except grpc.RpcError:
            pass
        self.inbox.put(None)

    def subjects(self):
        return [*self.classes.values(), *self.jobs.values()]

    def rest(self):
        waits = [x.retry - time.monotonic() for x in self.subjects() if x.retry]
        return max(min(waits), 0.001) if waits else None

    def take(self, message):
        kind = message.WhichOneof("message")
        if kind == "nodes":
            yield from self.take_nodes(message.nodes)
        elif kind == "classes":
            for number in message.classes.remove:
                self.classes.pop(number, None)
            added = {c.id: Judged(self.plugin, c) for c in message.classes.add}
            self.classes.update(added)
            yield from self.answers(added.values(), None)
        elif kind == "jobs":
            for name in message.jobs.remove:
                self.jobs.pop(name, None)
            added = {j.name: Slotted(self.plugin, j) for j in message.jobs.add}
            self.jobs.update(added)
            yield from self.answers(added.values(), None)
        elif kind == "question":
            yield from self.answer(message.question)

    def take_nodes(self, m):
        if m.reset:
            self.strings, self.nodes, self.changed = [], {}, None
            for x in self.subjects():
                x.at, x.told = 0, None
        self.strings.extend(m.strings)
        for index in m.remove:
            self.nodes.pop(index, None)
            self.touch(index, True)
        for raw in m.upsert:
            node = decode(raw, self.strings)
            self.touch(raw.index, raw.index not in self.nodes or self.nodes[raw.index].id != node.id)
            self.nodes[raw.index] = node
        if not m.last:
            return
        self.revision, changed, self.changed = m.revision, self.changed, {}
        yield from self.answers(self.subjects(), changed)
        yield pb.FromPlugin(applied=pb.Applied(
            revision=self.revision, late_classes=[c.id for c in self.classes.values() if c.failure is not None],
            late_jobs=[name for name, j in self.jobs.items() if j.failure is not None]))

    def touch(self, index, fresh):
        if self.changed is not None:
            self.changed[index] = fresh or self.changed.get(index, False)

    def answers(self, subjects, changed):
        """Says what is new about classes, in as few messages as hold it, and about jobs."""
        if self.revision == 0:
            return
        self.plugin.room = self.limit - 256
        out = pb.Verdicts(revision=self.revision)
        for x in list(subjects):
            for said in x.catch_up(self.nodes, changed, self.revision):
                if isinstance(said, pb.Slots):
                    yield pb.FromPlugin(slots=said)
                    continue
                if out.classes and out.ByteSize() + said.ByteSize() + 16 > self.limit:
                    yield pb.FromPlugin(verdicts=out)
                    out = pb.Verdicts(revision=self.revision)
                out.classes.append(said)
        if out.classes:
            yield pb.FromPlugin(verdicts=out)

    def answer(self, q):
        """Answers a question, in as many parts as it takes."""
        kind = q.WhichOneof("ask")
        self.plugin.room = self.limit - 256
        try:
            if kind == "drain" and self.plugin.drainer is not None:
                parts = [{"drain": part} for part in self.drain(q.drain)]
            elif kind == "trial" and self.plugin.filter is not None:
                parts = [{"trial": part} for part in self.trial(q.trial)]
            else:
                raise ValueError(f"the plugin answers no questions about a {kind}")
        except Exception as e:  # the author's code
            log("error", "answer failed", subject=f"question about a {kind}", error=told(e), stack=traceback.format_exc())
            parts = [{"failure": pb.Failure(kind="error", message=told(e))}]
        for i, part in enumerate(parts):
            yield pb.FromPlugin(answer=pb.Answer(question=q.id, more=i < len(parts) - 1, **part))

    def trial(self, q):
        nodes = dict(self.nodes)
        for raw in q.nodes:
            nodes[raw.index] = decode(raw, list(q.strings))
        parts = [pb.TrialAnswer()]
        for message in q.classes:
            for v in Judged(self.plugin, message).catch_up(nodes, None, 1):
                if parts[-1].classes and parts[-1].ByteSize() + v.ByteSize() + 64 > self.limit:
                    parts.append(pb.TrialAnswer())
                parts[-1].classes.append(v)
        return parts

    def drain(self, q):
        request = Drain(self.nodes[q.node], q.waited_ns / 1e9, q.deadline_ns / 1e9 or None, [self.task(t) for t in q.tasks])
        try:
            said = self.plugin.drainer.drain(request) or Drained()
        except Stall as s:
            said = Drained(keep=[Keep(t.id, s) for t in q.tasks])
        known = {t.id for t in q.tasks}
        answers = [
            pb.Transition(task=g.task, to=g.to, forced=g.forced, reason=g.reason[:MAX_TEXT], grace_ns=-1 if g.grace is None else int(g.grace * 1e9))
            for g in said.go
        ] + [pb.Kept(task=k.task, stall=self.plugin.stall(k.stall)) for k in said.keep]
        empty = pb.DrainAnswer(revision=q.revision, until_ns=int((said.again or 0) * 1e9))
        parts, size = [pb.DrainAnswer()], 256
        parts[0].CopyFrom(empty)
        for a in answers:
            if a.task not in known:
                raise ValueError(f"task {a.task!r} is not on the node")
            if size + a.ByteSize() + 16 > self.limit and size > 256:
                parts.append(pb.DrainAnswer())
                parts[-1].CopyFrom(empty)
                size = 256
            (parts[-1].transitions if isinstance(a, pb.Transition) else parts[-1].kept).append(a)
            size += a.ByteSize() + 16
        return parts

    def task(self, t):
        settings = None
        if t.settings_json:
            try:
                settings = complete(self.plugin.job, t.settings_json)
            except Invalid as e:
                log("warn", "a job's settings do not fit this plugin", job=t.job, error=str(e))
        return Task(t.id, t.job, t.job_type, t.slot, t.priority, t.on_drain, t.desired, t.observed, t.healthy, dict(t.labels), settings)


def decode(raw, s):
    """Makes a Node of its message, whose strings are numbers in a table."""
    return Node(
        id=s[raw.id], name=s[raw.name],
        labels={s[k]: s[v] for k, v in zip(raw.label_keys, raw.label_values)},
        attributes={s[k]: s[v] for k, v in zip(raw.attribute_keys, raw.attribute_values)},
        hostname=s[raw.hostname], os=s[raw.os], arch=s[raw.arch],
        addresses=[s[a] for a in raw.addresses], drivers=[s[d] for d in raw.drivers],
        milli_cpu=raw.milli_cpu, memory=raw.memory_bytes, units=dict(raw.units),
        availability=s[raw.availability], state=s[raw.state], decommissioned=raw.decommissioned,
    )


# ---- the service -----------------------------------------------------------------------------------------------------------------


class Plugin:
    """Answers the plugin protocol for a filter, a drainer and job types, whichever there are."""

    def __init__(self, filter, drainer, job_types, name, version, watches, job, config):
        self.filter, self.drainer, self.job_types = filter, drainer, job_types
        self.name, self.version, self.watches, self.job, self.config = name, version, watches, job, config
        self.parts = list({id(p): p for p in (filter, drainer, *job_types.values()) if p is not None}.values())
        self.room = 1 << 20
        self.sessions, self.lock = set(), threading.Lock()
        self.stopping, self.stopped = False, threading.Event()

    def code(self, code):
        return code if code == "constraint" or code.startswith(self.name + ".") else f"{self.name}.{code}"

    def stall(self, s):
        return pb.Stall(code=self.code(s.code), message=s.message[:MAX_TEXT], detail=s.detail[:MAX_TEXT], clears=s.clears[:MAX_TEXT], evicts=s.evicts)

    def description(self):
        served = {"filter": self.filter, "drainer": self.drainer, "job_type": self.job_types or None}
        return pb.DescribeResponse(
            name=self.name, version=self.version, sdk="setpoint-plugin-python 0.2.0", protocol=PROTOCOL,
            interfaces=[word for word, part in served.items() if part is not None], job_types=sorted(self.job_types), watches=self.watches, config=schema_message(self.config), job=schema_message(self.job))

    def Describe(self, _request, _context):
        return self.description()

    def Validate(self, request, context):
        try:
            if request.WhichOneof("what") == "config_json":
                complete(self.config, request.config_json)
            else:
                asked = Request(request.job.job_type, dict(request.job.labels), complete(self.job, request.job_json))
                of_others = [p for t, p in self.job_types.items() if t != asked.job_type and p is not self.job_types.get(asked.job_type)]
                for part in self.parts:
                    if part not in of_others:
                        part.validate(asked)
        except Invalid as e:
            return pb.ValidateResponse(diagnostics=e.diagnostics)
        except ValueError as e:
            return pb.ValidateResponse(diagnostics=[diagnostic(str(e))])
        except Stall as s:
            return pb.ValidateResponse(diagnostics=[diagnostic(f"{s.message or s.detail} ({s.code})")])
        except Exception as e:  # the author's code
            log("error", "plugin code failed", call="validate", error=told(e), stack=traceback.format_exc())
            context.abort(grpc.StatusCode.INTERNAL, f"validate: {told(e)}")
        return pb.ValidateResponse()

    def Configure(self, request, _context):
        try:
            config = complete(self.config, request.config_json)
            for part in self.parts:
                part.configure(config)
        except Invalid as e:
            return pb.ConfigureResponse(diagnostics=e.diagnostics)
        except ValueError as e:
            return pb.ConfigureResponse(diagnostics=[diagnostic(str(e))])
        with self.lock:
            for s in self.sessions:
                s.inbox.put("changed")
        return pb.ConfigureResponse()

    def Session(self, requests, context):
        session = Session(self)
        with self.lock:
            if self.stopping:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the plugin is stopping")
            self.sessions.add(session)
        try:
            yield from session.run(requests)
        finally:
            with self.lock:
                self.sessions.discard(session)

    def Stop(self, _request, _context):
        with self.lock:
            self.stopping = True
            for s in self.sessions:
                s.inbox.put(None)
        threading.Timer(0.3, self.stopped.set).start()  # the host may have a last word
        return pb.StopResponse()


def handlers(plugin):
    """The services that a host expects: the plugin's own, and those that go-plugin hosts use."""
    def unary(method, request, response):
        return grpc.unary_unary_rpc_method_handler(method, request.FromString, response.SerializeToString)

    own = {name: unary(getattr(plugin, name), getattr(pb, name + "Request"), getattr(pb, name + "Response"))
           for name in ("Describe", "Validate", "Configure", "Stop")}
    own["Session"] = grpc.stream_stream_rpc_method_handler(plugin.Session, pb.FromCore.FromString, pb.FromPlugin.SerializeToString)

    def hold(_request, _context):
        plugin.stopped.wait()
        return iter(())

    def shut_down(_request, _context):
        plugin.stopped.set()
        return b""

    serving = grpc.unary_unary_rpc_method_handler(lambda _r, _c: b"\x08\x01")  # HealthCheckResponse{status: SERVING}
    return [
        grpc.method_handlers_generic_handler("setpoint.plugin.v1.Plugin", own),
        grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": serving}),
        grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": grpc.unary_unary_rpc_method_handler(shut_down)}),
        grpc.method_handlers_generic_handler("plugin.GRPCStdio", {"StreamStdio": grpc.unary_stream_rpc_method_handler(hold)}),
        grpc.method_handlers_generic_handler("plugin.GRPCBroker", {"StartStream": grpc.stream_stream_rpc_method_handler(hold)}),
    ]


def certificate():
    """Makes a key and a certificate for localhost, as PEM."""
    with tempfile.TemporaryDirectory() as d:
        key, cert = os.path.join(d, "key"), os.path.join(d, "cert")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
            check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with open(key, "rb") as k, open(cert, "rb") as c:
            return k.read(), c.read()


def follow_lifeline():
    """Ends the process when its host is gone: then the pipe ends whose other end the host holds."""
    if LIFELINE not in os.environ:
        return
    fd = int(os.environ[LIFELINE])
    os.set_inheritable(fd, False)

    def follow():
        while os.read(fd, 64):
            pass
        os._exit(0)

    threading.Thread(target=follow, daemon=True).start()


def serve(filter=None, *, name, version, drainer=None, job_types=None, watches=(), job=(), config=()):
    """Serves the plugin until its host ends it or is gone. It is the last call of a plugin's program. job_types are JobTypes by the names of the types."""
    plugin = Plugin(filter, drainer, dict(job_types or {}), name, version, list(watches), list(job), list(config))
    if not plugin.parts:
        sys.exit(f"{name} serves nothing: give serve a filter, a drainer or job_types")
    if sys.argv[1:] == ["describe"]:
        print(json_format.MessageToJson(plugin.description(), preserving_proto_field_name=True))
        return
    debug = "--debug" in sys.argv[1:] or os.environ.get(DEBUG) == "1"
    if not debug and os.environ.get(COOKIE[0]) != COOKIE[1]:
        sys.exit(f"{name} is a plugin of Setpoint, which the server starts; name its path in the server's configuration. "
                 "Started with --debug it waits for a server to attach.")
    if not debug and str(PROTOCOL) not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", str(PROTOCOL)).split(","):
        sys.exit(f"{name} speaks version {PROTOCOL} of the protocol, the host {os.environ['PLUGIN_PROTOCOL_VERSIONS']}")
    follow_lifeline()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=32), handlers=handlers(plugin), options=[
        ("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", -1)])
    folder = tempfile.mkdtemp(prefix="setpoint-debug-") if debug else os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or tempfile.mkdtemp()
    path = os.path.join(folder, "plugin.sock")
    offered = ""
    if os.environ.get("PLUGIN_CLIENT_CERT") and not debug:
        key, cert = certificate()
        server.add_secure_port("unix:" + path, grpc.ssl_server_credentials(
            [(key, cert)], root_certificates=os.environ["PLUGIN_CLIENT_CERT"].encode(), require_client_auth=True))
        offered = base64.b64encode(ssl.PEM_cert_to_DER_cert(cert.decode())).decode().rstrip("=")
    else:
        server.add_insecure_port("unix:" + path)
    server.start()
    if debug:
        print(f"{REATTACH}='" + json.dumps({name: {"socket": path, "pid": os.getpid(), "protocol": PROTOCOL}}) + "'", flush=True)
    else:
        print(f"1|{PROTOCOL}|unix|{path}|grpc|{offered}", flush=True)
    signal.signal(signal.SIGINT, lambda *_: plugin.stopped.set())
    signal.signal(signal.SIGTERM, lambda *_: plugin.stopped.set())
    while not plugin.stopped.wait(1 << 20):
        pass
    server.stop(1).wait()
    if debug:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)
