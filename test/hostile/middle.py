"""A hostile Redis: a real one, with one of its answers replaced by something worse.

The one in the middle reads requests and answers, and knows which belongs to which. Where the answer
to the chosen step should go to the client, a trick comes instead, on every connection and every
time. So each step can be reached by an honest conversation.
"""

import collections
import socket
import threading

SCRIPTS = {  # in the order in which they are loaded
    "fair": ["claim", "refresh", "renew", "release", "lower", "break", "list"],
    "set": ["claim", "renew", "release", "list", "break"],
    "setnx": ["claim", "renew", "release", "list", "break", "look", "repair"],
    "getset": ["claim", "renew", "release", "list", "look", "restore"],
    "redlock": ["claim", "renew", "release", "break", "list", "survey", "admit", "found"],
}
COMMANDS = {  # those of its own that are no scripts
    "fair": [], "set": [], "redlock": ["get"],
    "setnx": ["setnx", "pexpire", "watch", "get", "unwatch", "multi", "del", "exec"],
    "getset": ["setnx", "get", "getset"],
}
# What must be answered wrongly, for another step to be reached.
BEFORE = {("getset", "restore"): ("getset", b"$5\r\nhello\r\n")}
GREETING = ["connect", "hello", "select", "info", "config", "eval", "load", "subscribe", "time"]


class Closed(Exception):
    """The other side has left."""


class Reader:
    """Values of RESP2 and RESP3, each with the bytes that it came in."""

    def __init__(self, connection):
        self.stream = connection.makefile("rb")
        self.raw = b""

    def take(self, count=None):
        data = self.stream.readline() if count is None else self.stream.read(count)
        if not data or (count is not None and len(data) < count):
            raise Closed
        self.raw += data
        return data

    def value(self):
        line = self.take()
        kind, rest = line[:1], line[1:-2]
        if kind in b"*~>" and int(rest) >= 0:
            return [self.value() for _ in range(int(rest))]
        if kind == b"%":
            return [self.value() for _ in range(2 * int(rest))]
        if kind in b"$=!" and int(rest) >= 0:
            return self.take(int(rest) + 2)[:-2]
        return rest

    def next(self):
        """(value, its bytes)"""
        self.raw = b""
        value = self.value()
        return value, self.raw


class Link:
    """One client and the server's side of it."""

    def __init__(self, middle, client):
        self.middle = middle
        self.client = client
        self.server = socket.create_connection(("127.0.0.1", middle.port_behind))
        self.steps = collections.deque()  # asked and not answered
        self.loaded = 0
        self.names = {}  # sha or text: script
        self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self):
        try:
            if self.middle.step == "connect":
                self.middle.hit()
                self.middle.trick(self, b"")
            upward = threading.Thread(target=self.guard, args=(self.hear_client,), daemon=True)
            upward.start()
            self.guard(self.hear_server)
        except OSError:
            self.close()

    def guard(self, function):
        try:
            function()
        except (OSError, ValueError, Closed):
            self.close()

    def close(self):
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def hear_client(self):
        reader = Reader(self.client)
        while True:
            words, raw = reader.next()
            step = self.step_of(words)
            if step != "subscribe":  # confirmed by messages
                self.steps.append((step, words))
            self.server.sendall(raw)

    def step_of(self, words):
        command = words[0].decode().lower()
        if command == "script":
            names = SCRIPTS[self.middle.recipe]
            self.names[words[2]] = names[self.loaded % len(names)]
            self.loaded += 1
            return "load"
        if command == "evalsha":
            return self.names.get(words[1], "evalsha")
        if command == "eval":
            return self.names.get(words[1], "eval")
        return command

    def hear_server(self):
        reader = Reader(self.server)
        loads = 0
        while True:
            value, raw = reader.next()
            if raw[:1] == b">":
                step, words = value[0].decode(), []
            else:
                step, words = self.steps.popleft()
            if step == "load":
                names = SCRIPTS[self.middle.recipe]
                self.names[value] = names[loads % len(names)]
                loads += 1
            if step == self.middle.step:
                self.middle.hit()
                self.middle.trick(self, raw)
            elif step == self.middle.before[0]:
                self.client.sendall(self.middle.before[1])
            else:
                self.client.sendall(raw)


class Middle:
    """Listens until it is closed. `trick` gets the link and the good answer."""

    def __init__(self, port_behind, recipe, step, trick):
        self.port_behind, self.recipe, self.step, self.trick = port_behind, recipe, step, trick
        self.before = BEFORE.get((recipe, step), ("", b""))
        self.hits = 0
        self.links = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.listen, daemon=True).start()

    def hit(self):
        self.hits += 1

    def make_link(self, client):
        return Link(self, client)

    def listen(self):
        while True:
            try:
                client, _ = self.listener.accept()
                link = self.make_link(client)
            except OSError:
                return
            self.links.append(link)
            threading.Thread(target=link.run, daemon=True).start()

    def close(self):
        self.listener.close()
        for link in self.links:
            link.close()
            link.client.close()
            link.server.close()
