"""etcd for tests: one server, or three that are one.

    etcd = place.add(Etcd, auth=("app", "secret", "holdfast/"))
    ... etcd.url(recipe="revision"), etcd.keys(), etcd.call("lease/revoke", ID=7)
    three = place.add(EtcdThree)
    three.leader().kill(); three.leader()      # another one

It is looked into by its JSON gateway, where numbers of 64 bits are texts, keys and values are in
base64, and what is 0 or empty is missing.
"""

import base64
import http.client
import json
import os
import re
import socket
import urllib.parse

from servers import LIMIT_S, PORT_TRIES, Server, ServerError, free_port, wait_until

ANSWER_S = 0.5  # for a server that may stand still
DURATION = re.compile(r"([\d.]+)(ms|µs|ns|s|m|h)")
UNITS_MS = {"h": 3600e3, "m": 60e3, "s": 1e3, "ms": 1, "µs": 1e-3, "ns": 1e-6}
EVERYTHING = "AA=="  # the key, and the end, that mean all keys


def text_of(key):
    """As the gateway writes keys and values."""
    data = key if isinstance(key, bytes) else key.encode()
    return base64.b64encode(data).decode()


def bytes_of(text):
    return base64.b64decode(text or "")


def duration_ms(text):
    """As Go writes it: 1m2.5s, 345.6ms."""
    return sum(float(number) * UNITS_MS[unit] for number, unit in DURATION.findall(text))


class Key:
    """One key, as it lies in the server."""

    def __init__(self, found):
        self.name = bytes_of(found["key"]).decode(errors="replace")
        self.value = bytes_of(found.get("value"))
        self.revision = int(found["create_revision"])
        self.changed = int(found["mod_revision"])
        self.lease = int(found.get("lease", 0))

    def __repr__(self):
        return f"{self.name}@{self.revision}"


class Etcd(Server):
    """etcd, alone. Options:

    persist   "always" (default), "none": whether it waits for the disk
    tls       True: the port speaks TLS; "client": and wants a certificate
    auth      (user, password, prefix): nobody comes in but this user, who may do everything behind
              the prefix, and root
    token_s   how long a token lasts that users are given, in s
    config    {option: value}: more of its own options

    With TLS, another port (plain_port) speaks clear text: there the tests look into it."""

    name = engine = speech = "etcd"
    STALL_MS = 200
    ROOT = ("root", "of-the-tests")
    STALLS = re.compile(r"took too long \((\S+?)\)|took too long \[(\S+) for|"
                        r"sync duration of (\S+?),|exceeded the \S+ timeout for (\S+?),")
    WHAT = ("a request", "applying entries", "fsync", "a heartbeat")
    peers = ()  # in a cluster: options that say who belongs to it
    proxied = None  # ... and the port by which the others find it

    def prepare(self):
        self.plain_port = free_port() if self.options.get("tls") else None
        self.peer_port = free_port()
        self.log_seen = 0
        self.has_users = False
        self.tokens = {}

    def command(self):
        tls, scheme = self.options.get("tls"), "https" if self.options.get("tls") else "http"
        here = f"{scheme}://127.0.0.1:{self.port}"
        listen = [here] + [f"http://127.0.0.1:{self.plain_port}"] * bool(self.plain_port)
        peer = f"http://127.0.0.1:{self.peer_port}"
        found = f"http://127.0.0.1:{self.proxied or self.peer_port}"
        words = ["etcd", "--name", "alone", "--initial-cluster", f"alone={found}",
                 "--data-dir", self.path("data"), "--listen-client-urls", ",".join(listen),
                 "--advertise-client-urls", here, "--listen-peer-urls", peer,
                 "--initial-advertise-peer-urls", found, "--bcrypt-cost", "4",
                 "--auth-token-ttl", str(self.options.get("token_s", 300)), *self.peers]
        if tls:
            made = self.place.certificates
            words += ["--cert-file", made.server, "--key-file", made.key("server")]
            words += ["--client-cert-auth", "--trusted-ca-file", made.ca] * (tls == "client")
        if self.options.get("persist") == "none":
            words.append("--unsafe-no-fsync")
        for option, value in self.options.get("config", {}).items():
            words += ["--" + option, str(value)]
        return words

    # --- a look inside ---

    def post(self, path, body, headers, limit_s):
        connection = http.client.HTTPConnection("127.0.0.1", self.plain_port or self.port,
                                                timeout=limit_s)
        try:
            connection.request("POST", "/v3/" + path, json.dumps(body), headers)
            return json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError) as trouble:
            raise ServerError(f"{path}: {trouble!r}") from None
        finally:
            connection.close()

    def token(self, limit_s):
        """Of root: each start of the server forgets it."""
        if self.process not in self.tokens:
            who = dict(zip(("name", "password"), self.ROOT))
            self.tokens = {self.process: self.post("auth/authenticate", who, {}, limit_s)["token"]}
        return self.tokens[self.process]

    def call(self, path, limit_s=LIMIT_S, **body):
        """One call of its gateway, as somebody who may do everything: what it answers."""
        headers = {"Authorization": self.token(limit_s)} if self.has_users else {}
        answer = self.post(path, body, headers, limit_s)
        if "error" in answer:
            if "token" in str(answer["error"]):
                self.tokens = {}
            raise ServerError(f"{path}: {answer['error']}")
        return answer

    def found(self, prefix="", **more):
        """[Key] behind this prefix, in the order of their making."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else ""
        answer = self.call("kv/range", key=text_of(prefix) if prefix else EVERYTHING,
                           range_end=text_of(end) if prefix else EVERYTHING,
                           sort_target="CREATE", sort_order="ASCEND", **more)
        return [Key(each) for each in answer.get("kvs", [])]

    def keys(self):
        """The names of all keys, sorted."""
        return sorted(key.name for key in self.found())

    def revision(self):
        return int(self.call("kv/range", key=EVERYTHING)["header"]["revision"])

    def put(self, key, value="", lease=0):
        return self.call("kv/put", key=text_of(key), value=text_of(value), lease=lease)

    def delete(self, key):
        return int(self.call("kv/deleterange", key=text_of(key)).get("deleted", 0))

    def leases(self):
        """The numbers of all leases."""
        return {int(each["ID"]) for each in self.call("lease/leases").get("leases", [])}

    def revoke(self, lease):
        """What lived by it is gone with it."""
        return self.call("lease/revoke", ID=lease)

    def metric(self, name):
        """What it counts, by all of whose names this is the beginning."""
        connection = http.client.HTTPConnection("127.0.0.1", self.plain_port or self.port,
                                                timeout=LIMIT_S)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        found = re.findall(rf"^{re.escape(name)}.* (\S+)$", text, re.M)
        return sum(int(float(number)) for number in found)

    def watchers(self):
        """So many watches are open."""
        return self.metric("etcd_debugging_mvcc_watcher_total")

    def status(self):
        """{}: it does not answer."""
        try:
            return self.call("maintenance/status", limit_s=ANSWER_S)
        except (ServerError, KeyError):
            return {}

    def mode(self):
        """leader, follower; "": it knows of no leader, or does not answer."""
        told = self.status()
        if not told.get("leader"):
            return ""
        return "leader" if told["leader"] == told["header"]["member_id"] else "follower"

    def member(self):
        """The number by which the others know it, as it writes it."""
        return f"{int(self.status()['header']['member_id']):x}"

    def is_ready(self):
        """In a cluster it cannot serve before the others are there."""
        if not self.peers:
            return self.mode() != ""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.peer_port)) == 0

    def start(self):
        super().start()
        if not self.peers:
            self.set_users()
        return self

    def set_users(self):
        """Once: from then on nobody comes in without a name."""
        if not self.options.get("auth") or self.has_users:
            return
        user, password, prefix = self.options["auth"]
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        self.call("auth/role/add", name="lockers")
        self.call("auth/role/grant", name="lockers", perm={
            "permType": "READWRITE", "key": text_of(prefix), "range_end": text_of(end)})
        for name, word, role in ((*self.ROOT, "root"), (user, password, "lockers")):
            self.call("auth/user/add", name=name, password=word)
            self.call("auth/user/grant", user=name, role=role)
        self.call("auth/enable")
        self.has_users = True

    def url(self, at=None, who=None, **options):
        """`who`: user:password, instead of the user that there is."""
        scheme = self.engine + ("s" if self.options.get("tls") else "")
        if self.options.get("tls"):
            made = self.place.certificates
            options.setdefault("ca", made.ca)
            if self.options["tls"] == "client":
                options.setdefault("cert", made.client)
                options.setdefault("cert_key", made.key("client"))
        if who is None and self.options.get("auth"):
            who = ":".join(urllib.parse.quote(part, "") for part in self.options["auth"][:2])
        where = ",".join(at or [f"127.0.0.1:{self.port}"])
        query = urllib.parse.urlencode(options, quote_via=urllib.parse.quote)
        return f"{scheme}://{who or ''}{'@' if who else ''}{where}" + ("?" + query if query else "")

    def stalls(self):
        """{what: the longest in ms} that kept the server from answering for STALL_MS or longer."""
        found = {}
        for match in self.STALLS.finditer(self.log(), self.log_seen):
            ms = duration_ms(match.group(match.lastindex))
            what = self.WHAT[match.lastindex - 1]
            if ms >= self.STALL_MS:
                found[what] = max(found.get(what, 0), round(ms))
        return found

    def forget_stalls(self):
        self.log_seen = len(self.log())


class EtcdThree:
    """Three etcds that are one: options of Etcd, and

    between   function(to, port): the port of `to` that the others are told instead, as that of a
              proxy"""

    name = "etcd-three"
    engine = speech = Etcd.engine
    lease_ms = Etcd.lease_ms
    COUNT = 3
    FAST = ["--heartbeat-interval", "50", "--election-timeout", "500"]

    def __init__(self, place, folder, between=None, **options):
        self.between = between or (lambda to, port: port)
        self.servers = []
        for number in range(self.COUNT):
            own = os.path.join(folder, str(number))
            os.mkdir(own, 0o755)
            self.servers.append(Etcd(place, own, **options))

    @property
    def ports(self):
        return [server.port for server in self.servers]

    def url(self, at=None, **options):
        return self.servers[0].url(at=at or [f"127.0.0.1:{port}" for port in self.ports], **options)

    def introduce(self):
        """Tells each where the others are."""
        for number, server in enumerate(self.servers):
            server.peer_port = free_port()
            server.proxied = self.between(number, server.peer_port)
        cluster = ",".join(f"m{number}=http://127.0.0.1:{server.proxied}"
                           for number, server in enumerate(self.servers))
        for number, server in enumerate(self.servers):
            server.peers = (*self.FAST, "--name", f"m{number}", "--initial-cluster", cluster)

    def start(self):
        """All that do not run; returns when all serve. The first time, other ports are tried if
        one is taken."""
        fresh = not self.servers[0].was_ready
        for _ in range(PORT_TRIES):
            if fresh:
                self.introduce()
            for server in self.servers:
                if server.process is None:
                    server.launch()
            wait_until(lambda: self.dead() or self.serving(), f"{self.name} serves")
            if not self.dead():
                self.be_ready()
                return self
            if not fresh or not any("in use" in server.log() for server in self.dead()):
                break
            self.kill()
            for server in self.servers:
                server.port = free_port()
        raise ServerError(f"{self.name} does not start:\n{self.dead()[0].log()[-2000:]}")

    def be_ready(self):
        self.servers[0].set_users()
        for server in self.servers:
            server.was_ready = True
            server.has_users = self.servers[0].has_users

    def dead(self):
        return [server for server in self.servers if server.process.poll() is not None]

    def serving(self):
        return sorted(server.mode() for server in self.servers) == ["follower"] * 2 + ["leader"]

    def leaders(self):
        """Those that say so; one that stood still may not know yet that there is another."""
        return [server for server in self.servers if server.process and server.mode() == "leader"]

    def leader(self):
        """Waits until there is one, and returns it."""
        found = []
        wait_until(lambda: found.extend(self.leaders()) or found, "a leader")
        return found[0]

    def followers(self):
        return [server for server in self.servers if server.process and server.mode() == "follower"]

    def kill(self):
        for server in self.servers:
            server.kill()

    def keys(self):
        return self.leader().keys()

    def stalls(self):
        return {f"{server.port} {what}": ms for server in self.servers
                for what, ms in server.stalls().items()}

    def forget_stalls(self):
        for server in self.servers:
            server.forget_stalls()
