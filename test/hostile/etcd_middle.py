"""A hostile etcd: a real one, with one of its answers replaced by something worse.

The one in the middle reads frames, and knows which answer belongs to which question. Where the
answer to the chosen step should go to the client, a trick comes instead, on every connection and
every time, until it is mended. With `cut` another step is spoilt on the first connections of the
client, and tricks are played on later ones only: "STEP": they end instead of it; "after STEP": they
end behind it. With "mute STEP" its answers never come, on any, and tricks are played on all.
"""

import dataclasses
import socket
import struct
import threading

import http2
import middle

STEPS = {
    "Auth/Authenticate": "login", "Maintenance/Status": "status", "Cluster/MemberList": "members",
    "Lease/LeaseGrant": "grant", "Lease/LeaseRevoke": "revoke", "Lease/LeaseTimeToLive": "term",
    "Lease/LeaseKeepAlive": "kept", "KV/DeleteRange": "delete", "KV/Range": "range",
    "KV/Txn": "txn", "Watch/Watch": "watch"}
STREAMS = {"kept", "watch"}
HEAD = [(b":status", b"200"), (b"content-type", b"application/grpc")]
TAIL = [(b"grpc-status", b"0"), (b"grpc-message", b"")]


def step_of_range(request):
    """The greeting asks for a key alone; a probe for a number alone."""
    if http2.get(request, 9):
        return "probe"
    return "hello" if http2.get(request, 8) else "list"


def step_of_txn(request):
    """The conditions tell them apart, and what is done."""
    targets = [http2.get(one, 2) or 0 for one in http2.every(request, 1)]
    puts = [http2.get(one, 2) for one in http2.every(request, 2) if http2.get(one, 2) is not None]
    if targets and not any(targets):
        return "hope" if len(http2.every(request, 2)) == 1 else "convoy"
    if targets == [1, 0]:
        return "claim"
    if targets == [1, 4]:
        return "look"
    if not targets and all(http2.get(one, 3) for one in http2.every(request, 2)):
        return "deletes"
    if not targets:
        return "undo" if puts else "seek"
    if not puts:
        return "break"
    return {b"r": "lower", b"!": "break"}.get((http2.get(puts[0], 2) or b"")[:1], "move")


HOPES = ("hope", "convoy")
HOPEFUL = ("", *HOPES)  # the steps where claims may hope that nobody is there
NONE_THERE, MANY_THERE = b"\x20\x00\x82\x04", b"\x20\x7f\x82\x04"  # versions 0 and 127


def in_vain(raw):
    """The same question, if it is whether a line is empty; but the answer is no. Nobody hopes then,
    and the line is read."""
    return raw.replace(NONE_THERE, MANY_THERE)


def step_of(name, request):
    return {"range": step_of_range, "txn": step_of_txn}.get(name, lambda _: name)(request)


@dataclasses.dataclass
class Answer:
    """What the server said to one question, or one message of a stream."""

    step: str
    stream: int
    request: bytes
    message: bytes
    head: list
    tail: list
    is_stream: bool = False  # its head has been sent, and there is no tail
    raw: bytes = b""  # of what is no answer: the frame

    @property
    def packet(self):
        return self.raw or self.frames()

    @property
    def is_refused(self):
        """A hope whose lease has ended: there is nothing in it to lie about. It is asked anew."""
        return self.step in HOPES and not self.message

    def head_frame(self, pairs=None, flags=0):
        return http2.headers_frame(self.stream, self.head if pairs is None else pairs, flags)

    def tail_frame(self, pairs=None):
        tail = self.tail or TAIL
        return http2.headers_frame(self.stream, tail if pairs is None else pairs, http2.END_STREAM)

    def packed(self, message=None, flag=0, count=None):
        """As gRPC sends it, perhaps with another length before it."""
        message = self.message if message is None else message
        return struct.pack(">BI", flag, len(message) if count is None else count) + message

    def data(self, message=None, **how):
        return http2.data_frames(self.stream, self.packed(message, **how))

    def frames(self, message=None, **how):
        """The whole answer, with another message in it."""
        if self.is_stream:
            return self.data(message, **how)
        if not self.message and message is None:
            return self.tail_frame(self.head + self.tail)  # a refusal
        return self.head_frame() + self.data(message, **how) + self.tail_frame()

    def ended(self, tail):
        """A refusal, with this tail, by which streams end too."""
        return self.tail_frame(tail if self.is_stream else HEAD + tail)


@dataclasses.dataclass
class Call:
    name: str
    request: bytearray
    data: bytearray
    head: list = None


class Link(middle.Link):
    """One connection of a client and the server's side of it."""

    def __init__(self, owner, client):
        super().__init__(owner, client)
        self.first = len(owner.links) < 2  # a client has two
        self.calls = {}  # by stream
        self.lock = threading.Lock()
        self.theirs, self.ours = http2.Headers(), http2.Headers()
        self.server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self):
        try:
            super().run()
        finally:
            self.close()

    def is_hostile(self):
        return not self.middle.mended.is_set()

    @staticmethod
    def frame(stream):
        head = stream.read(9)
        if len(head) < 9:
            raise middle.Closed
        size, flags, number = struct.unpack(">IBI", head)
        payload = stream.read(size >> 8)
        if len(payload) < size >> 8:
            raise middle.Closed
        return size & 255, flags, number, payload, head + payload

    def hear_client(self):
        stream = self.client.makefile("rb")
        preface = stream.read(len(http2.PREFACE))
        self.server.sendall(preface)
        while True:
            kind, flags, number, payload, raw = self.frame(stream)
            if kind == http2.HEADERS:
                self.begin(number, payload)
            elif kind == http2.DATA and number in self.calls:
                self.calls[number].request += payload
                if self.calls[number].name == "txn" and self.middle.step not in HOPEFUL:
                    raw = in_vain(raw)
            elif kind == http2.SETTINGS and not flags & http2.ACK:
                self.note_settings(payload)
            self.server.sendall(raw)

    def begin(self, number, block):
        path = dict(self.theirs.read(block))[b":path"].decode()
        name = STEPS[path.partition("etcdserverpb.")[2]]
        with self.lock:
            self.calls[number] = Call(name, bytearray(), bytearray())

    def note_settings(self, payload):
        for at in range(0, len(payload), 6):
            name, value = struct.unpack(">HI", payload[at:at + 6])
            if name == 1:
                self.ours.resize(value)

    def hear_server(self):
        stream = self.server.makefile("rb")
        while True:
            kind, flags, number, payload, raw = self.frame(stream)
            if kind == http2.HEADERS:
                self.hear_headers(number, self.ours.read(payload), flags & http2.END_STREAM)
            elif kind == http2.DATA:
                self.hear_data(number, payload)
            elif kind == http2.SETTINGS and not flags & http2.ACK:
                self.hand_on(Answer("settings", 0, b"", b"", [], [], raw=raw))
            else:
                self.client.sendall(raw)

    def hear_headers(self, number, pairs, is_last):
        call = self.calls.get(number)
        if not call:
            return
        if call.head is None and not is_last:
            call.head = pairs
            if call.name in STREAMS:
                self.client.sendall(http2.headers_frame(number, pairs))
            return
        if call.name in STREAMS:
            self.client.sendall(http2.headers_frame(number, pairs, http2.END_STREAM))
            return
        request = bytes(call.request[5:])
        head, tail = (call.head, pairs) if call.head else (pairs[:2], pairs[2:])
        self.hand_on(Answer(step_of(call.name, request), number, request, bytes(call.data[5:]),
                            head, tail))

    def hear_data(self, number, payload):
        call = self.calls.get(number)
        if not call:
            return
        call.data += payload
        while call.name in STREAMS and len(call.data) >= 5:
            size = 5 + struct.unpack(">I", call.data[1:5])[0]
            if len(call.data) < size:
                return
            message = bytes(call.data[5:size])
            del call.data[:size]
            step = call.name
            if step == "watch":
                step = "created" if http2.get(message, 3) else "event"
            self.hand_on(Answer(step, number, b"", message, call.head, [], True))

    def hand_on(self, answer):
        owner = self.middle
        how, _, spoilt = (owner.cut or "").rpartition(" ")
        if not self.is_hostile():
            self.client.sendall(answer.packet)
        elif answer.is_refused:
            owner.refusals += 1
            self.client.sendall(answer.packet)
        elif how == "mute" and answer.step == spoilt:
            return
        elif how != "mute" and spoilt and self.first:
            if how == "after" or answer.step != spoilt:
                self.client.sendall(answer.packet)
            if answer.step == spoilt:
                owner.end_first()
        elif answer.step == owner.step:
            owner.hit()
            owner.trick(self, answer)
        else:
            self.client.sendall(answer.packet)


class Middle(middle.Middle):
    """Listens until it is closed. `trick` gets the link and the good answer."""

    def __init__(self, port_behind, step, trick, cut=None):
        self.cut = cut
        self.refusals = 0  # that were handed on as they were
        self.mended = threading.Event()
        super().__init__(port_behind, "fair", step, trick)

    def make_link(self, client):
        return Link(self, client)

    def mend(self):
        self.mended.set()

    def end_first(self):
        for link in self.links[:2]:
            link.close()

    def close(self):
        self.mended.set()
        super().close()
