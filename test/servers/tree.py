"""What lies in a ZooKeeper, seen and changed by hand: a session of its own, and others' ended.

    with tree.Session(zookeeper) as session:
        session.create("/a", flags=tree.EPHEMERAL); session.children("/a"); session.stat("/a").owner
    tree.expire(zookeeper, owner)            # that session is over: its nodes are gone

A refusal is raised as Refused, by its code. What is watched comes into session.events.
"""

import base64
import collections
import hashlib
import re
import socket
import struct

import servers
from zookeeper import ZooKeeper

EPHEMERAL, SEQUENTIAL, CONTAINER = 1, 2, 4
NO_AUTH, NO_NODE, NODE_EXISTS, NOT_EMPTY, EXPIRED = -102, -101, -110, -111, -112
PERMISSIONS = {"r": 1, "w": 2, "c": 4, "d": 8, "a": 16}
ANYBODY = (("rwcda", "world", "anyone"),)
CREATE, DELETE, EXISTS, GET, SET, GET_ACL, SET_ACL, SYNC, CLOSE, AUTH, PING = (
    1, 2, 3, 4, 5, 6, 7, 9, -11, 100, 11)
CHILDREN, CREATE_STAT, CREATE_CONTAINER = 12, 15, 19
XID_EVENT, XID_PING, XID_AUTH = -1, -2, -4
KINDS = {1: "created", 2: "deleted", 3: "changed", 4: "children", -1: "session"}

Stat = collections.namedtuple("Stat", "czxid mzxid ctime mtime version cversion aversion owner"
                              " data_bytes children pzxid")
STAT = struct.Struct(">qqqqiiiqiiq")


class Refused(servers.ServerError):
    """The server's own code."""

    def __init__(self, code, what):
        super().__init__(f"{what}: {code}")
        self.code = code


def buffer(data):
    if data is None:
        return struct.pack(">i", -1)
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">i", len(data)) + data


def acls(entries):
    packed = struct.pack(">i", len(entries))
    for rights, scheme, identity in entries:
        packed += struct.pack(">i", sum(PERMISSIONS[letter] for letter in rights))
        packed += buffer(scheme) + buffer(identity)
    return packed


def digest(user, password):
    """As it stands in an ACL of the scheme `digest`."""
    secret = hashlib.sha1(f"{user}:{password}".encode()).digest()
    return f"{user}:{base64.b64encode(secret).decode()}"


def password_of(session_id):
    """The server makes it from the number alone: java.util.Random, seeded with it and a secret."""
    state = (session_id ^ 0xB3415C00 ^ 0x5DEECE66D) & ((1 << 48) - 1)
    made = b""
    for _ in range(4):
        state = (state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        made += struct.pack("<I", (state >> 16) & 0xFFFFFFFF)
    return made


class Reader:
    """Walks over one packet."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return values if len(values) > 1 else values[0]

    def bytes(self):
        count = self.take("i")
        if count < 0:
            return None
        self.at += count
        return self.data[self.at - count:self.at]

    def text(self):
        return self.bytes().decode()

    def stat(self):
        self.at += STAT.size
        return Stat(*STAT.unpack_from(self.data, self.at - STAT.size))


class Session:
    """One session on one connection. The server may be given as a port, too.

    timeout_ms   how long it lasts unheard; it says nothing by itself: see ping()
    session_id   another's, to take it over: whoever had it is cut off
    admin        False: as anybody, and not as whoever may do everything"""

    def __init__(self, server, timeout_ms=60000, session_id=0, admin=True):
        port = server if isinstance(server, int) else server.plain_port or server.port
        self.socket = socket.create_connection(("127.0.0.1", port), servers.LIMIT_S)
        self.stream = self.socket.makefile("rb")
        self.xid = 0
        self.events = []  # (kind, path), in the order of their coming
        password = password_of(session_id) if session_id else bytes(16)
        self.write(struct.pack(">iqiq", 0, 0, timeout_ms, session_id) + buffer(password) + b"\0")
        hello = Reader(self.read())
        _, self.timeout_ms, self.id = hello.take("iiq")
        if not self.id or self.timeout_ms <= 0:
            self.drop()
            raise Refused(EXPIRED, "connect")
        if admin:
            self.authenticate(*ZooKeeper.ADMIN)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.close()
        except (OSError, servers.ServerError):
            pass  # it was ended from elsewhere

    # --- packets ---

    def write(self, record):
        self.socket.sendall(struct.pack(">i", len(record)) + record)

    def read(self):
        head = self.stream.read(4)
        body = self.stream.read(struct.unpack(">i", head)[0]) if len(head) == 4 else b""
        if not body:
            raise servers.ServerError("the server closed the connection")
        return body

    def next(self):
        """(xid, error, reader) of the next packet; an event is entered."""
        reader = Reader(self.read())
        xid, _, error = reader.take("iqi")
        if xid == XID_EVENT:
            kind, _ = reader.take("ii")
            self.events.append((KINDS.get(kind, kind), reader.text()))
        return xid, error, reader

    def call(self, opcode, record=b"", xid=None):
        if xid is None:
            self.xid += 1
            xid = self.xid
        self.write(struct.pack(">ii", xid, opcode) + record)
        while True:
            found, error, reader = self.next()
            if found == xid and error:
                raise Refused(error, f"request {opcode}")
            if found == xid:
                return reader

    def wait_event(self):
        """The next one that has not been taken yet."""
        while not self.events:
            self.next()
        return self.events.pop(0)

    # --- what can be done ---

    def authenticate(self, user, password):
        self.call(AUTH, struct.pack(">i", 0) + buffer("digest") + buffer(f"{user}:{password}"),
                  XID_AUTH)

    def ping(self):
        self.call(PING, xid=XID_PING)

    def create(self, path, data=b"", flags=0, acl=ANYBODY):
        """Returns the path, which has a number at its end if it was to be SEQUENTIAL."""
        opcode = CREATE_CONTAINER if flags == CONTAINER else CREATE_STAT
        record = buffer(path) + buffer(data) + acls(acl) + struct.pack(">i", flags)
        return self.call(opcode, record).text()

    def delete(self, path, version=-1):
        self.call(DELETE, buffer(path) + struct.pack(">i", version))

    def stat(self, path, watch=False):
        """None: no such node."""
        try:
            return self.call(EXISTS, buffer(path) + bytes([watch])).stat()
        except Refused as refused:
            if refused.code != NO_NODE:
                raise
            return None

    def data(self, path, watch=False):
        return self.call(GET, buffer(path) + bytes([watch])).bytes()

    def set(self, path, data, version=-1):
        return self.call(SET, buffer(path) + buffer(data) + struct.pack(">i", version)).stat()

    def acl(self, path):
        reader = self.call(GET_ACL, buffer(path))
        return [(reader.take("i"), reader.text(), reader.text()) for _ in range(reader.take("i"))]

    def set_acl(self, path, acl):
        self.call(SET_ACL, buffer(path) + acls(acl) + struct.pack(">i", -1))

    def children(self, path, watch=False):
        """None: no such node."""
        try:
            reader = self.call(CHILDREN, buffer(path) + bytes([watch]))
        except Refused as refused:
            if refused.code != NO_NODE:
                raise
            return None
        return sorted(reader.text() for _ in range(reader.take("i")))

    def sync(self, path="/"):
        """What is read after it is not older than this."""
        self.call(SYNC, buffer(path))

    def walk(self, path="/"):
        """Every node under this one, with its Stat, but not what is ZooKeeper's own."""
        found = {}
        todo = [path]
        while todo:
            above = todo.pop()
            for name in self.children(above) or []:
                below = f"{above.rstrip('/')}/{name}"
                stat = self.stat(below) if below != "/zookeeper" else None
                if stat:
                    found[below] = stat
                    todo.append(below)
        return found

    def remove(self, path):
        """It and all under it."""
        for below in sorted(self.walk(path), reverse=True):
            self.delete(below)
        self.delete(path)

    def close(self):
        """Ends the session: its nodes are gone when this returns."""
        if self.socket.fileno() < 0:
            return
        try:
            self.call(CLOSE)
        finally:
            self.drop()

    def drop(self):
        """Only the connection ends; the session lasts until its time is over."""
        self.stream.close()
        self.socket.close()


def expire(server, session_id):
    """Ends another's session as if its time were over: in one breath, so that whoever had it
    cannot come between."""
    port = server if isinstance(server, int) else server.plain_port or server.port
    hello = struct.pack(">iqiq", 0, 0, 60000, session_id) + buffer(password_of(session_id)) + b"\0"
    close = struct.pack(">ii", 1, CLOSE)
    with socket.create_connection(("127.0.0.1", port), servers.LIMIT_S) as connection:
        connection.sendall(b"".join(struct.pack(">i", len(part)) + part for part in (hello, close)))
        while connection.recv(4096):
            pass


def ephemerals(server):
    """{session id: [path ...]} of all that have any, as this server knows it."""
    found, session_id = {}, None
    for line in server.ask("dump").splitlines():
        if re.fullmatch(r"0x[0-9a-f]+:", line):
            session_id = int(line[:-1], 16)
        elif line.startswith("\t") and session_id is not None:
            found.setdefault(session_id, []).append(line.strip())
        else:
            session_id = None
    return {owner: sorted(paths) for owner, paths in found.items()}


def connections(server):
    """{session id: its timeout in ms} of the sessions that are connected to this server."""
    return {int(found[1], 16): int(found[2]) for found in re.finditer(
        r"sid=0x([0-9a-f]+),.*?to=(\d+)", server.ask("cons"))}


def watches(server):
    """{path: {session id ...}}: who waits for what on this server."""
    found, path = {}, None
    for line in server.ask("wchp").splitlines():
        if line.startswith("\t"):
            found.setdefault(path, set()).add(int(line.strip(), 16))
        elif line:
            path = line
    return found
