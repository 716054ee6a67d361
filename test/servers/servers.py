"""Real servers for tests: started on free loopback ports, ended by their process ids.

    with servers.Place() as place:
        redis = place.add(servers.Redis, persist="always")
        ... redis.url(recipe="fair"), redis.port, redis.call("KEYS", "*")
        redis.kill(); redis.start()          # the same port, the same data

A Place is a folder under $TMPDIR with one folder for each server. Leaving the Place ends the
servers and removes the folder. A server also ends when the thread that started it does, however
that ends (PR_SET_PDEATHSIG): start servers from the main thread.

Another kind of server is one more class: its command line, how it is known to be ready, its URL;
and one more word in kinds.py.
"""

import atexit
import ctypes
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

LIMIT_S = 60  # for a server to be ready or to end; how long it took is not looked at
LOOK_S = 0.005
PORTS = (20000, 32000)  # below those that outgoing connections are given
PORT_TRIES = 20
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class ServerError(Exception):
    """A server did not do what it is there for."""


GIVEN = set()  # ports that somebody here will listen on, and perhaps does not yet
DEAD = []  # sockets on which nobody will


def bound_socket():
    """At a port that nobody listens on, and that no connection of anybody will be given."""
    for _ in range(PORT_TRIES * 10):
        port = random.randrange(*PORTS)
        if port in GIVEN:
            continue
        GIVEN.add(port)
        bound = socket.socket()
        try:
            bound.bind(("127.0.0.1", port))
            return bound
        except OSError:
            bound.close()
    raise ServerError("no free port")


def free_port():
    with bound_socket() as bound:
        return bound.getsockname()[1]


def dead_address():
    """Refuses whoever comes; as long as this process lives, nobody else begins to serve there."""
    DEAD.append(bound_socket())
    return f"127.0.0.1:{DEAD[-1].getsockname()[1]}"


def wait_until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise ServerError(f"waited {LIMIT_S} s in vain: {what}")
        time.sleep(LOOK_S)


def thread_states(pid):
    """The letter of each, as ps shows it."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            yield (task / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue  # it has just ended


def become(user, parent):
    """For a child before it executes: another user, and the end with its parent.

    In this order: the kernel forgets the signal when the user changes."""
    if user:
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class Certificates:
    """An authority of our own, a server's certificate for 127.0.0.1 and localhost, a client's."""

    def __init__(self, folder):
        self.folder = folder
        os.mkdir(folder, 0o755)
        self.ca = self.make("ca", "/CN=test authority", [])
        signed = ["-CA", self.ca, "-CAkey", self.key("ca")]
        self.server = self.make("server", "/CN=localhost", signed + [
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-addext", "basicConstraints=CA:FALSE"])
        self.client = self.make("client", "/CN=client", signed + [
            "-addext", "basicConstraints=CA:FALSE"])

    def key(self, name):
        return os.path.join(self.folder, name + ".key")

    def make(self, name, subject, more):
        path = os.path.join(self.folder, name + ".crt")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", subject,
                        "-keyout", self.key(name), "-out", path] + more,
                       check=True, capture_output=True)
        os.chmod(self.key(name), 0o644)  # of a test: the server is another user
        return path


class Server:
    """One server, in a folder of its own. A kind of server defines what follows."""

    name = ""  # what the tests call this kind
    engine = ""  # which engine it is for
    speech = ""  # what a proxy before it has to understand
    lease_ms = 4000  # a short one that outlasts what two busy CPUs may be away
    user = "nobody"  # whom it runs as, when we are root

    def command(self):
        """The words that start it, in self.folder and on self.port."""
        raise NotImplementedError

    def is_ready(self):
        """Does it answer?"""
        raise NotImplementedError

    def url(self, at=None, **options):
        """Where clients find it; `at`: [host:port ...] instead, as of proxies before it."""
        raise NotImplementedError

    def prepare(self):
        """What has to be done once, before the first start."""

    # What all kinds share.

    def __init__(self, place, folder, **options):
        self.place = place
        self.folder = folder
        self.options = options
        self.port = free_port()
        self.process = None
        self.was_ready = False
        self.user_entry = pwd.getpwnam(self.user) if os.geteuid() == 0 else None
        self.prepare()
        self.give_away(folder)

    @property
    def ports(self):
        return [self.port]

    def path(self, name):
        return os.path.join(self.folder, name)

    def give_away(self, path):
        if self.user_entry:
            os.chown(path, self.user_entry.pw_uid, self.user_entry.pw_gid)

    def log(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def launch(self):
        parent, user = os.getpid(), self.user_entry
        with open(self.path("log"), "ab") as log:
            self.process = subprocess.Popen(
                self.command(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, preexec_fn=lambda: become(user, parent))

    def start(self):
        """Returns when it answers. The first time, another port is tried if this one is taken."""
        assert self.process is None
        for _ in range(PORT_TRIES):
            self.launch()
            wait_until(lambda: self.process.poll() is not None or self.is_ready(),
                       f"{self.name} answers")
            if self.process.poll() is None:
                self.was_ready = True
                return self
            self.process = None
            if self.was_ready or "in use" not in self.log():
                break
            self.port = free_port()
        raise ServerError(f"{self.name} does not start:\n{self.log()[-2000:]}")

    def end(self, number):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise ServerError(f"{self.name} does not end") from None
        finally:
            self.process = None

    def stop(self):
        """Asks it to end, and waits until it has."""
        self.end(signal.SIGTERM)

    def kill(self):
        self.end(signal.SIGKILL)

    def freeze(self):
        """Returns when none of its threads runs any more: one may have an answer ready."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: set(thread_states(self.process.pid)) == {"T"}, "it stands still")

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)


class Place:
    """A folder, and servers in it; both are gone at the end."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="servers-")
        os.chmod(self.folder, 0o755)
        self.servers = []
        self._certificates = None
        atexit.register(self.close)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def certificates(self):
        if self._certificates is None:
            self._certificates = Certificates(os.path.join(self.folder, "certificates"))
        return self._certificates

    def add(self, kind, **options):
        """A new server of this kind, started."""
        folder = os.path.join(self.folder, f"{kind.name}-{len(self.servers)}")
        os.mkdir(folder, 0o755)
        server = kind(self, folder, **options)
        self.servers.append(server)
        return server.start()

    def close(self):
        """The data is of no use to anybody: no server is asked to save it."""
        for server in self.servers:
            server.kill()
        self.servers = []
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)


class Redis(Server):
    """redis-server. Options:

    persist   "always" (default), "everysec", "none": how it keeps its append-only file
    tls       True: the port speaks TLS; "client": and wants a certificate
    acl       (user, password, rules): the one user that may come in
    config    {option: value}: more of its own options

    It always listens on a Unix socket too, where call() talks to it in clear text."""

    name = engine = speech = "redis"
    STALL_MS = 200
    ADMIN = ("admin", "of-the-tests")
    PERSIST = {
        "always": ["--appendonly", "yes", "--appendfsync", "always"],
        "everysec": ["--appendonly", "yes", "--appendfsync", "everysec"],
        "none": ["--appendonly", "no"],
    }

    @property
    def socket_path(self):
        return self.path("socket")

    def command(self):
        tls = self.options.get("tls")
        words = ["redis-server", "--bind", "127.0.0.1", "--dir", self.folder, "--save", "",
                 "--unixsocket", self.socket_path, "--unixsocketperm", "777",
                 "--latency-monitor-threshold", str(self.STALL_MS),
                 "--port", "0" if tls else str(self.port)]
        words += self.PERSIST[self.options.get("persist", "always")]
        if tls:
            made = self.place.certificates
            words += ["--tls-port", str(self.port), "--tls-cert-file", made.server,
                      "--tls-key-file", made.key("server"), "--tls-ca-cert-file", made.ca,
                      "--tls-auth-clients", "yes" if tls == "client" else "no"]
        if self.options.get("acl"):
            user, password, rules = self.options["acl"]
            words += ["--user", self.ADMIN[0], "on", ">" + self.ADMIN[1], "~*", "&*", "+@all",
                      "--user", user, "on", ">" + password, *rules.split(),
                      "--user", "default", "off"]
        for option, value in self.options.get("config", {}).items():
            words += ["--" + option, str(value)]
        return words

    def is_ready(self):
        try:
            return self.call("PING") == "PONG" and self.call("INFO", "persistence").find(
                "loading:1") < 0
        except (OSError, ServerError):
            return False

    def url(self, at=None, **options):
        scheme = options.pop("scheme", self.name) + ("s" if self.options.get("tls") else "")
        where = ",".join(at or [f"127.0.0.1:{self.port}"])
        if self.options.get("tls"):
            made = self.place.certificates
            options.setdefault("ca", made.ca)
            if self.options["tls"] == "client":
                options.setdefault("cert", made.client)
                options.setdefault("cert_key", made.key("client"))
        who = ""
        if self.options.get("acl"):
            who = ":".join(urllib.parse.quote(part, "") for part in self.options["acl"][:2]) + "@"
        query = urllib.parse.urlencode(options, quote_via=urllib.parse.quote)
        return f"{scheme}://{who}{where}" + ("?" + query if query else "")

    def call(self, *words):
        """One command, as somebody who may do everything; on a connection of its own."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(LIMIT_S)
            connection.connect(self.socket_path)
            with connection.makefile("rwb") as stream:
                if self.options.get("acl"):
                    self.send(stream, "AUTH", *self.ADMIN)
                    read_reply(stream)
                self.send(stream, *words)
                return read_reply(stream)

    @staticmethod
    def send(stream, *words):
        stream.write(b"*%d\r\n" % len(words))
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            stream.write(b"$%d\r\n%s\r\n" % (len(data), data))
        stream.flush()

    def stalls(self):
        """{what: the longest in ms} that kept the server from answering for STALL_MS or longer."""
        return {event[0]: event[3] for event in self.call("LATENCY", "LATEST")}

    def forget_stalls(self):
        self.call("LATENCY", "RESET")

    def keys(self):
        """Every key of every database, sorted."""
        found = []
        for line in self.call("INFO", "keyspace").splitlines():
            if line.startswith("db"):
                database = line[2:line.index(":")]
                found += self.call("EVAL", "redis.call('SELECT', ARGV[1])"
                                   " return redis.call('KEYS', '*')", "0", database)
        return sorted(found)


class RedLock:
    """Independent Redis servers, of which a majority counts: `count` (5), and options of Redis."""

    name = engine = "redlock"
    speech = Redis.speech
    lease_ms = Redis.lease_ms

    def __init__(self, place, folder, count=5, **options):
        self.servers = []
        for number in range(count):
            own = os.path.join(folder, str(number))
            os.mkdir(own, 0o755)
            self.servers.append(Redis(place, own, **options))

    @property
    def ports(self):
        return [server.port for server in self.servers]

    def url(self, at=None, **options):
        at = at or [f"127.0.0.1:{port}" for port in self.ports]
        return self.servers[0].url(at=at, scheme=self.name, **options)

    def start(self):
        for server in self.servers:
            server.start()
        return self

    def kill(self):
        for server in self.servers:
            server.kill()

    def stalls(self):
        return {f"{server.port} {what}": ms for server in self.servers
                for what, ms in server.stalls().items()}

    def forget_stalls(self):
        for server in self.servers:
            server.forget_stalls()

    def keys(self):
        return sorted(key for server in self.servers for key in server.keys())


def read_reply(stream):
    """One RESP2 reply: text, number, None, or a list of these. An error is raised."""
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise ServerError("the server closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return rest.decode()
    if kind == b"-":
        raise ServerError(rest.decode())
    if kind == b":":
        return int(rest)
    if int(rest) < 0:
        return None
    if kind == b"$":
        return stream.read(int(rest) + 2)[:-2].decode(errors="replace")
    assert kind == b"*", line
    return [read_reply(stream) for _ in range(int(rest))]
