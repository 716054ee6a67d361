"""A hostile PostgreSQL: a real one, with one of its answers replaced by something worse.

The one in the middle reads messages (protocol 3.0), and knows which answer belongs to which
question: what we ask ends with a Sync, and what is answered with ReadyForQuery. Where the answer to
the chosen step should go to the client, a trick comes instead, on every connection and every time.
Messages that nobody asked for go through as they come.
"""

import collections
import dataclasses
import socket
import struct
import threading

import middle

UNASKED = b"ANS"  # notification, notice, parameter
TEXTS = {  # by what stands in the statement
    b"server_version_num": "facts", b"LISTEN": "listen", b"bool_and": "rights",
    b"DO $holdfast$": "create", b"client_connection_check_interval": "watch"}


def message(kind, body=b"", length=None):
    return kind + struct.pack(">i", len(body) + 4 if length is None else length) + body


def row(*values):
    """None: NULL"""
    return message(b"D", struct.pack(">h", len(values)) + b"".join(
        struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
        for value in values))


@dataclasses.dataclass
class Answer:
    """What the server said to one question: [(kind, body)]."""

    step: str
    messages: list

    @property
    def raw(self):
        return b"".join(message(kind, body) for kind, body in self.messages)

    def of(self, kind):
        return [body for found, body in self.messages if found == kind]

    def with_rows(self, *rows):
        """The same with these rows, as they come from row()."""
        out, done = b"", False
        for kind, body in self.messages:
            if kind == b"D" or (kind == b"C" and not done):
                out += b"" if done else b"".join(rows)
                done = True
            out += b"" if kind == b"D" else message(kind, body)
        return out


class Link(middle.Link):
    """One client and the server's side of it."""

    def __init__(self, owner, client):
        super().__init__(owner, client)
        self.server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked = collections.deque()
        self.lock = threading.Lock()

    @staticmethod
    def packet(stream):
        head = stream.read(5)
        if len(head) < 5:
            raise middle.Closed
        kind, length = head[:1], struct.unpack(">i", head[1:])[0]
        return kind, stream.read(length - 4)

    def hear_client(self):
        stream = self.client.makefile("rb")
        length = stream.read(4)
        if len(length) < 4:
            raise middle.Closed
        self.server.sendall(length + stream.read(struct.unpack(">i", length)[0] - 4))
        step = ""
        while True:
            kind, body = self.packet(stream)
            if kind == b"P":
                name, text = body.split(b"\0")[:2]
                step = "prepare" if name else next(
                    (found for mark, found in TEXTS.items() if mark in text), "other")
            elif kind == b"B" and body.split(b"\0")[1]:
                step = body.split(b"\0")[1].decode()
            elif kind == b"S":
                with self.lock:
                    self.asked.append(step)
            self.server.sendall(message(kind, body))

    def hear_server(self):
        stream = self.server.makefile("rb")
        self.greet(stream)
        while True:
            messages = []
            while not messages or messages[-1][0] != b"Z":
                kind, body = self.packet(stream)
                if kind in UNASKED:
                    self.hand_on(Answer("unasked", [(kind, body)]))
                else:
                    messages.append((kind, body))
            with self.lock:
                step = self.asked.popleft()
            self.hand_on(Answer(step, messages))

    def greet(self, stream):
        """Until the server is ready: what it says first, and what it says last."""
        self.hand_on(Answer("auth", [self.packet(stream)]))
        messages = [(b"R", b"")]
        while messages[-1][0] != b"Z":
            kind, body = self.packet(stream)
            if kind == b"R" and body[:4] != b"\0\0\0\0":
                self.client.sendall(message(kind, body))
            else:
                messages.append((kind, body))
        self.hand_on(Answer("welcome", messages[1:]))

    def hand_on(self, answer):
        if answer.step == self.middle.step:
            self.middle.hit()
            self.middle.trick(self, answer)
        else:
            self.client.sendall(answer.raw)


class Middle(middle.Middle):
    """Listens until it is closed. `trick` gets the link and the good answer."""

    def __init__(self, port_behind, step, trick):
        super().__init__(port_behind, "fair", step, trick)

    def make_link(self, client):
        return Link(self, client)
