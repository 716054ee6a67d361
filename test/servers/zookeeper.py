"""ZooKeeper for tests: one server, or three that are one.

    zookeeper = place.add(ZooKeeper, tick=500)
    ... zookeeper.url(recipe="sequence"), zookeeper.mode(), zookeeper.ask("wchs")
    three = place.add(ZooKeeperThree)
    three.leader().kill(); three.leader()      # another one

What lies in it, and whose: tree.py.
"""

import base64
import hashlib
import os
import re
import socket
import urllib.parse

from servers import PORT_TRIES, Server, ServerError, free_port, wait_until

ANSWER_S = 0.5  # then it is asked again: one that starts forgets who comes too early


class ZooKeeper(Server):
    """ZooKeeper, alone, in a Java machine made for starting fast. Options:

    tick      its tickTime in ms (500): it lets sessions last from 2 to 20 of them
    sessions  (shortest, longest) in ms, instead
    persist   "always" (default), "none": whether it waits for the disk
    tls       True: the port speaks TLS; "client": and wants a certificate
    config    {option: value}: more of its own options
    java      {property: value}: what it reads from the Java machine

    Whoever says that he is ADMIN may do everything. With TLS, another port (plain_port) speaks
    clear text: there the tests look into it."""

    name = engine = speech = "zookeeper"
    lease_ms = 4500  # of which a tick is given away
    TICK_MS = 500
    STALL_MS = 200
    ADMIN = ("super", "of-the-tests")
    JARS = ("zookeeper", "slf4j-simple", "netty-codec", "netty-resolver",
            "netty-transport-native-unix-common")
    MACHINE = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
    MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    STALLS = re.compile(r"(fsync-ing the write ahead log) in \S+ took (\d+) ?ms"
                        r"|(Detected pause in JVM).*?approximately (\d+) ?ms")
    quorum = ""  # in an ensemble: who belongs to it, as lines of its configuration
    number = 0  # ... and which of them it is

    def prepare(self):
        self.plain_port = free_port() if self.options.get("tls") else None
        self.log_seen = 0
        os.mkdir(self.path("data"), 0o755)
        self.give_away(self.path("data"))

    def configuration(self):
        shortest, longest = self.options.get("sessions", (None, None))
        tls = self.options.get("tls")
        lines = {"tickTime": self.options.get("tick", self.TICK_MS), "initLimit": 20,
                 "syncLimit": 4, "dataDir": self.path("data"), "maxClientCnxns": 0,
                 "clientPort": self.plain_port or self.port, "clientPortAddress": "127.0.0.1",
                 "admin.enableServer": "false", "4lw.commands.whitelist": "*",
                 "minSessionTimeout": shortest, "maxSessionTimeout": longest,
                 "jvm.pause.monitor": "true", "jvm.pause.sleep.time.ms": 100,
                 "jvm.pause.warn-threshold.ms": self.STALL_MS, "standaloneEnabled": "true"}
        if tls:
            made = self.place.certificates
            lines |= {"secureClientPort": self.port, "secureClientPortAddress": "127.0.0.1",
                      "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                      "ssl.keyStore.location": self.key_store(), "ssl.keyStore.type": "PEM",
                      "ssl.trustStore.location": made.ca, "ssl.trustStore.type": "PEM",
                      "ssl.clientAuth": "need" if tls == "client" else "none",
                      "ssl.hostnameVerification": "false"}
        lines |= self.options.get("config", {})
        return "".join(f"{option}={value}\n" for option, value in lines.items()
                       if value is not None) + self.quorum

    def key_store(self):
        """The server's key and certificate, in one file."""
        made, path = self.place.certificates, self.path("server.pem")
        with open(path, "w", encoding="utf-8") as both:
            for part in (made.key("server"), made.server):
                with open(part, encoding="utf-8") as file:
                    both.write(file.read())
        return path

    def command(self):
        with open(self.path("zoo.cfg"), "w", encoding="utf-8") as file:
            file.write(self.configuration())
        with open(self.path("data/myid"), "w", encoding="utf-8") as file:
            file.write(f"{self.number}\n")
        secret = hashlib.sha1(":".join(self.ADMIN).encode()).digest()
        properties = {
            "java.io.tmpdir": self.folder, "org.slf4j.simpleLogger.defaultLogLevel": "warn",
            "zookeeper.DigestAuthenticationProvider.superDigest":
                f"{self.ADMIN[0]}:{base64.b64encode(secret).decode()}",
            "zookeeper.forceSync": "no" if self.options.get("persist") == "none" else "yes",
            "zookeeper.preAllocSize": 1024, "fsync.warningthresholdms": self.STALL_MS,
            **self.options.get("java", {})}
        return ["java", *self.MACHINE, *(f"-D{name}={value}" for name, value in properties.items()),
                "-cp", ":".join(f"/usr/share/java/{jar}.jar" for jar in self.JARS), self.MAIN,
                self.path("zoo.cfg")]

    def ask(self, word):
        """One of its four-letter words; "" if it does not answer."""
        where = ("127.0.0.1", self.plain_port or self.port)
        try:
            with socket.create_connection(where, ANSWER_S) as talk:
                talk.sendall(word.encode())
                with talk.makefile("r", encoding="utf-8", errors="replace") as stream:
                    return stream.read()
        except OSError:
            return ""

    def mode(self):
        """standalone, leader, follower; "": it does not serve."""
        found = re.search(r"^Mode: (\w+)", self.ask("srvr"), re.MULTILINE)
        return found.group(1) if found else ""

    def is_ready(self):
        """In an ensemble it cannot serve before the others are there."""
        return self.ask("ruok") == "imok" if self.quorum else self.mode() != ""

    def url(self, at=None, who="", chroot="", **options):
        """`who`: user:password; `chroot`: with its slash."""
        scheme = self.engine + ("s" if self.options.get("tls") else "")
        if self.options.get("tls"):
            made = self.place.certificates
            options.setdefault("ca", made.ca)
            if self.options["tls"] == "client":
                options.setdefault("cert", made.client)
                options.setdefault("cert_key", made.key("client"))
        options.setdefault("tick", f"{self.options.get('tick', self.TICK_MS)}ms")
        where = ",".join(at or [f"127.0.0.1:{self.port}"])
        query = urllib.parse.urlencode(options, quote_via=urllib.parse.quote)
        return f"{scheme}://{who}{'@' if who else ''}{where}{chroot}?{query}"

    def stalls(self):
        """{what: the longest in ms} that kept the server from answering for STALL_MS or longer."""
        found = {}
        for match in self.STALLS.finditer(self.log(), self.log_seen):
            what, ms = (part for part in match.groups() if part is not None)
            found[what] = max(found.get(what, 0), int(ms))
        return found

    def forget_stalls(self):
        self.log_seen = len(self.log())


class ZooKeeperThree:
    """Three ZooKeepers that are one: options of ZooKeeper, and

    between   function(of, to, port): the port of `to` that its peer `of` is told instead, as that
              of a proxy; only whoever follows `to` goes there"""

    name = "zookeeper-three"
    engine = speech = ZooKeeper.engine
    lease_ms = ZooKeeper.lease_ms
    COUNT = 3

    def __init__(self, place, folder, between=None, **options):
        self.between = between or (lambda of, to, port: port)
        self.servers = []
        for number in range(self.COUNT):
            own = os.path.join(folder, str(number))
            os.mkdir(own, 0o755)
            self.servers.append(ZooKeeper(place, own, **options))

    @property
    def ports(self):
        return [server.port for server in self.servers]

    def url(self, at=None, **options):
        return self.servers[0].url(at=at or [f"127.0.0.1:{port}" for port in self.ports], **options)

    def introduce(self):
        """Tells each where the others are: where they lead from, and where they elect."""
        talks = [(free_port(), free_port()) for _ in self.servers]
        for of, server in enumerate(self.servers):
            server.number = of + 1
            server.quorum = "".join(
                f"server.{to + 1}=127.0.0.1:"
                f"{port if of == to else self.between(of, to, port)}:{elect}\n"
                for to, (port, elect) in enumerate(talks))

    def start(self):
        """All that do not run; returns when all serve. The first time, other ports are tried if
        one is taken."""
        fresh = not self.servers[0].quorum
        for _ in range(PORT_TRIES):
            if fresh:
                self.introduce()
            for server in self.servers:
                if server.process is None:
                    server.launch()
            wait_until(lambda: self.dead() or self.serving(), f"{self.name} serves")
            if not self.dead():
                for server in self.servers:
                    server.was_ready = True
                return self
            if not fresh or not any("in use" in server.log() for server in self.dead()):
                break
            self.kill()
            for server in self.servers:
                server.port = free_port()
        raise ServerError(f"{self.name} does not start:\n{self.dead()[0].log()[-2000:]}")

    def dead(self):
        return [server for server in self.servers if server.process.poll() is not None]

    def serving(self):
        return sorted(server.mode() for server in self.servers) == ["follower"] * 2 + ["leader"]

    def leader(self):
        """Waits until there is one, and returns it."""
        found = []
        wait_until(lambda: found.extend(self.leaders()) or found, "a leader")
        return found[0]

    def leaders(self):
        return [server for server in self.servers if server.process and server.mode() == "leader"]

    def followers(self):
        return [server for server in self.servers if server.process and server.mode() == "follower"]

    def kill(self):
        for server in self.servers:
            server.kill()

    def stalls(self):
        return {f"{server.port} {what}": ms for server in self.servers
                for what, ms in server.stalls().items()}

    def forget_stalls(self):
        for server in self.servers:
            server.forget_stalls()
