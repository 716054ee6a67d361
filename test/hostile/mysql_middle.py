"""A hostile MariaDB: a real one, with one of its answers replaced by something worse.

The one in the middle reads packets, and knows which answer belongs to which question: what we ask
is one packet, and the answers come in that order. Where the answer to the chosen step should go to
the client, a trick comes instead, on every connection and every time, until it is mended. A claim
that finds the lock free asks for it briefly; for the step behind that it is told to ask at length.
Where the client speaks TLS nothing but the greeting can be replaced.
"""

import collections
import dataclasses
import re
import socket
import struct
import threading

import middle

QUERY, PREPARE, EXECUTE = 3, 22, 23
MORE = 8  # in a state: another result follows
HEARD_BYTES_MAX = 1 << 20
TEXTS = (  # what stands in a statement, and its step
    (rb"\A(?:CREATE|DO) ", "create"), (rb"UPDATE \w+ SET fence = fence", "hand"),
    (rb"UPDATE \w+ SET fence", "take"), (rb"UPDATE \w+ SET ends_us", "give"),
    (rb"CALL \w*?_(claim|release|lower|break|listen|forget|try|enter|leave|lock)_1\(", None),
    (rb"CALL \w*_together_1\(", "renew"), (rb"CALL \w*rights_1\(", "rights"),
    (rb"get_lock\(\?", "wait"), (rb"UPDATE \w+ SET lease_us", "lease"),
    (rb"SELECT concat\(", "look"), (rb"SELECT (?:name|[rsf]\.name),", "list"),
    (rb"long_query_time", "bell-set"), (rb"SET SESSION TRANSACTION|SET time_zone", "set"),
    (rb"SET SESSION wait_timeout", "idle"), (rb"connection_id", "facts"),
    (rb"SHOW GLOBAL", "variables"), (rb"KILL QUERY if", "ring"), (rb"KILL", "kill"),
    (rb"SELECT cast\(timestampdiff", "time"))
# Before one step is come to, others must be answered so.
BEFORE = {
    "claim": {"take": lambda good: [ok()]}, "release": {"give": lambda good: [ok()]},
    **dict.fromkeys(("hand", "ring"), {"take": lambda good: [ok()],
                                       "claim": lambda good: crowded(good)}),
    "time": {"take": lambda good: [ok()], "claim": lambda good: good.result((b"stale",))},
    "create": {"prepare": lambda good: [b"\xff\x7a\x04#42S02no such table"]}}


def crowded(good):
    """What was granted is wanted by others, too."""
    rows = good.rows()
    if not rows or not rows[0][0].startswith(b"granted "):
        return good.bodies
    return good.result((rows[0][0][:-1] + b"1",))


def packet(body, number=1, length=None):
    length = len(body) if length is None else length
    return struct.pack("<I", length)[:3] + bytes([number & 255]) + body


def packets(*bodies, first=1):
    return b"".join(packet(body, first + at) for at, body in enumerate(bodies))


def number(value):
    """One that says how long it is."""
    if value < 251:
        return bytes([value])
    size, mark = (2, 0xfc) if value < 1 << 16 else (3, 0xfd) if value < 1 << 24 else (8, 0xfe)
    return bytes([mark]) + value.to_bytes(size, "little")


def text(value):
    """None: NULL"""
    return b"\xfb" if value is None else number(len(value)) + value


def ok(changed=0, inserted=0, state=2):
    return b"\0" + number(changed) + number(inserted) + struct.pack("<HH", state, 0)


def end(state=2):
    return b"\xfe" + struct.pack("<HH", 0, state)


DEFINITION = (text(b"def") + text(b"") * 3 + text(b"a") + text(b"") + b"\x0c"
              + struct.pack("<HIBHBxx", 63, 1024, 253, 0, 0))


def number_at(body, at):
    size = {0xfc: 2, 0xfd: 3, 0xfe: 8}.get(body[at], 0)
    if not size:
        return body[at], at + 1
    return int.from_bytes(body[at + 1:at + 1 + size], "little"), at + 1 + size


def is_end(body):
    return body[:1] == b"\xfe" and len(body) < 9


def step_of(statement):
    for pattern, step in TEXTS:
        found = re.search(pattern, statement)
        if found:
            return step or found.group(1).decode()
    return "other"


@dataclasses.dataclass
class Answer:
    """What the server said to one question: the bodies of packets."""

    step: str
    bodies: list
    form: int = QUERY
    first: int = 1  # the number of the first packet

    @property
    def raw(self):
        return packets(*self.bodies, first=self.first)

    def row(self, *values):
        """As this answer would have it."""
        if self.form != EXECUTE:
            return b"".join(text(value) for value in values)
        missing = sum(1 << at + 2 for at, value in enumerate(values) if value is None)
        return (b"\0" + missing.to_bytes((len(values) + 9) // 8, "little")
                + b"".join(text(value) for value in values if value is not None))

    def rows(self):
        """The values of those that there are in its first result."""
        if self.form == PREPARE or len(self.bodies) < 3:
            return []
        columns = self.bodies[0][0]
        found = []
        for body in self.bodies[columns + 2:]:
            if is_end(body):
                break
            found.append(self.values(body, columns))
        return found

    def values(self, body, columns):
        binary = self.form == EXECUTE
        at = 1 + (columns + 9) // 8 if binary else 0
        missing = int.from_bytes(body[1:at], "little") >> 2 if binary else 0
        values = []
        for column in range(columns):
            if missing >> column & 1 or (not binary and body[at] == 0xfb):
                values.append(None)
                at += not binary
                continue
            size, at = number_at(body, at)
            values.append(body[at:at + size])
            at += size
        return values

    def result(self, *rows, columns=None, state=2):
        """The bodies of a result with these rows."""
        columns = len(rows[0]) if columns is None else columns
        return [number(columns), *[DEFINITION] * columns, end(state),
                *[self.row(*row) for row in rows], end(state)]


class Link(middle.Link):
    """One client and the server's side of it."""

    def __init__(self, owner, client):
        super().__init__(owner, client)
        self.server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked = collections.deque()  # (step, form)
        self.statements = {}  # number: step
        self.has_created = False
        self.is_played = False
        self.heard = bytearray()  # what the client said, or the beginning of it
        self.lock = threading.Lock()

    def run(self):
        try:
            super().run()
        finally:
            self.close()

    @staticmethod
    def packet(stream):
        head = stream.read(4)
        if len(head) < 4:
            raise middle.Closed
        size = int.from_bytes(head[:3], "little")
        body = stream.read(size)
        if len(body) < size:
            raise middle.Closed
        return body, head[3]

    def note(self, data):
        if len(self.heard) < HEARD_BYTES_MAX:
            self.heard += data

    # --- the client ---

    def hear_client(self):
        stream = self.client.makefile("rb")
        if self.middle.secure:
            self.pass_on(self.client, self.server)
            return
        has_signed = False
        while True:
            body, place = self.packet(stream)
            self.note(body)
            if place == 0:
                with self.lock:
                    self.asked.append(self.question_of(body))
            elif has_signed:
                continue  # to a question that the server never asked
            has_signed = True
            self.server.sendall(packet(body, place))

    def pass_on(self, source, to):
        while data := source.recv(65536):
            to.sendall(data)
        raise middle.Closed

    def question_of(self, body):
        if body[0] != EXECUTE:
            step = step_of(body[1:])
            self.has_created = self.has_created or step == "create"
            return step, body[0]
        step = self.statements.get(struct.unpack_from("<I", body, 1)[0], "nothing")
        if step == "renew" and body[16:24] == bytes(8):
            step = "inspect"
        if step == "wait":
            self.middle.waits.set()
        return step, EXECUTE

    # --- the server ---

    def hear_server(self):
        stream = self.server.makefile("rb")
        self.hand_on(Answer("greeting", [self.packet(stream)[0]], first=0))
        if self.middle.secure:
            self.pass_on(self.server, self.client)
        self.hand_on(Answer("sign", [self.packet(stream)[0]], first=2))
        while True:
            body, place = self.packet(stream)
            with self.lock:
                step, form = self.asked.popleft() if self.asked else ("unasked", QUERY)
            answer = Answer(step, [body], form, place)
            if step != "unasked":
                self.complete(answer, stream)
            if form == PREPARE:
                self.note_statement(answer)
            self.hand_on(answer)

    def complete(self, answer, stream):
        """Reads the rest of what began with the one packet that it has."""
        bodies = answer.bodies

        def more(count):
            bodies.extend(self.packet(stream)[0] for _ in range(count))

        if answer.form == PREPARE and bodies[0][0] == 0:
            columns, parameters = struct.unpack_from("<HH", bodies[0], 5)
            more(columns + (columns > 0) + parameters + (parameters > 0))
            return
        state = self.rest_of_result(bodies, more)
        while state & MORE and bodies[-1][0] != 0xff:
            more(1)
            state = self.rest_of_result(bodies, more)

    @staticmethod
    def rest_of_result(bodies, more):
        """Of the one that begins with the last packet; its state."""
        first = bodies[-1]
        if first[0] == 0xff:
            return 0
        if first[0] == 0:
            _, at = number_at(first, 1)
            _, at = number_at(first, at)
            return struct.unpack_from("<H", first, at)[0]
        more(first[0] + 1)
        more(1)
        while not is_end(bodies[-1]) and bodies[-1][0] != 0xff:
            more(1)
        return struct.unpack_from("<H", bodies[-1], 3)[0] if is_end(bodies[-1]) else 0

    def note_statement(self, answer):
        """What it is called from now on; those of the bell are prepared by a step of their own."""
        step = answer.step
        if step == "lock":  # to try, and then to wait
            step = "wait" if "try" in self.statements.values() else "try"
        if answer.bodies[0][0] == 0:
            self.statements[struct.unpack_from("<I", answer.bodies[0], 1)[0]] = step
        answer.step = "bell-prepare" if step in ("listen", "look") else "prepare"

    def hand_on(self, answer):
        owner = self.middle
        if owner.mended.is_set():
            self.client.sendall(answer.raw)
        elif answer.step == owner.step:
            owner.hit()
            self.is_played = True
            owner.trick(self, answer)
        elif answer.step in owner.before and not self.has_created:
            self.client.sendall(packets(*owner.before[answer.step](answer)))
        else:
            self.client.sendall(answer.raw)
            if answer.step == "claim" and b"queued " in answer.raw:
                owner.waits.set()


class Middle(middle.Middle):
    """Listens until it is closed. `trick` gets the link and the good answer."""

    def __init__(self, port_behind, step, trick, secure=False, hangs=False):
        self.mended = threading.Event()
        self.hangs = hangs  # what was sent never ends
        self.secure = secure
        self.waits = threading.Event()  # somebody stands in line
        super().__init__(port_behind, "fair", step, trick)
        self.before = BEFORE.get(step, {})

    def make_link(self, client):
        return Link(self, client)

    def mend(self):
        """A connection on which nothing can follow ends."""
        self.mended.set()
        for link in self.links:
            if self.hangs and link.is_played:
                link.close()

    def heard(self):
        """What clients said in the clear."""
        return b"\n".join(bytes(link.heard) for link in self.links)

    def close(self):
        self.mended.set()
        super().close()
