"""A hostile ZooKeeper: a real one, with one of its answers replaced by something worse.

The one in the middle reads packets, and knows which answer belongs to which question. Where the
answer to the chosen step should go to the client, a trick comes instead, on every connection and
every time. With `cut` the first connection ends when the first answer to that step comes, which the
client then never sees (or has just seen, with "after "), and tricks are played on later ones only:
so steps are reached that come when a session is taken up again. A trick may have an `ask`, which
changes the question before the server gets it.
"""

import dataclasses
import struct
import threading

import middle

XID_EVENT, XID_PING = -1, -2
STEPS = {  # by opcode; `data`, `children` and `sync` are told apart by their paths
    1: "parent", 19: "parent", 2: "delete", 3: "exists", 4: "data", 5: "set", 8: "children",
    9: "sync", 14: "check", 15: "create", 18: "unwatch", 100: "auth", 101: "watches",
    -11: "close"}
CONFIG = b"/zookeeper/config"


def text(data):
    return struct.pack(">i", len(data)) + data


@dataclasses.dataclass
class Answer:
    """One packet of the server, and what it answers."""

    step: str
    raw: bytes  # without its length
    path: bytes = b""  # that was asked for

    @property
    def xid(self):
        return struct.unpack(">i", self.raw[:4])[0]

    @property
    def zxid(self):
        return struct.unpack(">q", self.raw[4:12])[0]

    @property
    def body(self):
        return self.raw[16:]

    def but(self, xid=None, zxid=None, error=0, body=None):
        """The same with something else in it, as a packet."""
        head = struct.pack(">iqi", self.xid if xid is None else xid,
                           self.zxid if zxid is None else zxid, error)
        return text(head + (self.body if body is None else body))

    @property
    def packet(self):
        return text(self.raw)


class Link(middle.Link):
    """One client and the server's side of it."""

    def __init__(self, owner, client):
        super().__init__(owner, client)
        self.first = not owner.links
        self.asked = {}  # xid: (step, path)
        self.lock = threading.Lock()

    @staticmethod
    def packet(stream):
        head = stream.read(4)
        if len(head) < 4:
            raise middle.Closed
        data = stream.read(struct.unpack(">i", head)[0])
        return data

    def hear_client(self):
        stream = self.client.makefile("rb")
        first = self.packet(stream)
        self.server.sendall(text(first))
        while True:
            data = self.packet(stream)
            xid, opcode = struct.unpack(">ii", data[:8])
            step, path = self.step_of(opcode, data[8:])
            with self.lock:
                self.asked[xid] = step, path
            if step == self.middle.step and hasattr(self.middle.trick, "ask"):
                data = self.middle.trick.ask(data)
            self.server.sendall(text(data))

    @staticmethod
    def step_of(opcode, rest):
        step, path = STEPS.get(opcode, "other"), b""
        if opcode in (1, 2, 3, 4, 5, 8, 9, 15, 18, 19):
            path = rest[4:4 + struct.unpack(">i", rest[:4])[0]]
        if path == CONFIG:
            step = "config"
        elif step == "check" and rest[:4] == struct.pack(">i", 2):
            step = "joined"
        elif step == "sync" and path == b"/":
            step = "beat"
        elif step == "children" and path.count(b"/") == 1:
            step = "root"
        elif step == "data" and rest[-1]:
            step = "ahead"  # or the own node: with a watch
        return step, path

    def hear_server(self):
        stream = self.server.makefile("rb")
        self.hand_on(Answer("welcome", self.packet(stream)))
        while True:
            raw = self.packet(stream)
            xid = struct.unpack(">i", raw[:4])[0]
            with self.lock:
                step, path = ("event", b"") if xid == XID_EVENT else self.asked[xid]
            self.hand_on(Answer(step, raw, path))

    def hand_on(self, answer):
        owner = self.middle
        if owner.cut and self.first:
            if owner.cut != answer.step:
                self.client.sendall(answer.packet)
            if owner.cut == f"after {answer.step}" or owner.cut == answer.step:
                self.close()
        elif answer.step == owner.step:
            owner.hit()
            owner.trick(self, answer)
        else:
            self.client.sendall(answer.packet)


class Middle(middle.Middle):
    """Listens until it is closed. `trick` gets the link and the good answer."""

    def __init__(self, port_behind, step, trick, cut=None):
        self.cut = cut
        super().__init__(port_behind, "fair", step, trick)

    def make_link(self, client):
        return Link(self, client)
