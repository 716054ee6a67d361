"""PostgreSQL for tests: one server, its hot standby, or a PgBouncer before it.

    postgres = place.add(Postgres, persist="none")
    ... postgres.url(recipe="queue"), postgres.sql("SELECT 1"), postgres.connections()
    replica = place.add(PostgresReplica, of=postgres)
    replica.follow(); replica.promote()
    pooler = place.add(PgBouncer, of=postgres)

The programs of Debian's postgresql-15 are run as they are: no cluster of the machine is touched.
"""

import os
import re
import signal
import socket
import struct
import subprocess

from database import (ACCOUNTS, CLERK, DATABASE, OWNER, Connection, Database, Refused, Session,
                      stands_still, state_of)
from servers import LIMIT_S, Server, become, wait_until

PROGRAMS = "/usr/lib/postgresql/15/bin"
ADMIN = "admin"
NOWHERE = "template1"  # the database that there always is


class Talk(Session):
    """The frontend/backend protocol 3.0 of PostgreSQL, as far as the trusted admin needs it.

    messages   [(channel, text)] that came by NOTIFY; they come with answers"""

    PROTOCOL = 3 << 16

    def greet(self, database):
        """The admin writes on a server that is read-only to others, unless it is a standby."""
        self.messages = []
        words = ["user", ADMIN, "database", database or NOWHERE,
                 "options", "-c default_transaction_read_only=off", ""]
        body = struct.pack(">I", self.PROTOCOL) + b"".join(
            word.encode() + b"\0" for word in words)
        self.socket.sendall(struct.pack(">I", len(body) + 4) + body)
        self.answer()

    def send(self, text):
        body = text.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack(">I", len(body) + 4) + body)

    def packet(self):
        kind, size = struct.unpack(">cI", self.take(5))
        return kind, self.take(size - 4)

    @staticmethod
    def row_of(body):
        row, at = [], 2
        for _ in range(struct.unpack_from(">H", body)[0]):
            size = struct.unpack_from(">i", body, at)[0]
            at += 4
            row.append(None if size < 0 else body[at:at + size].decode(errors="surrogateescape"))
            at += max(size, 0)
        return tuple(row)

    @staticmethod
    def refusal_of(body):
        parts = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
        return Refused(parts[b"C"], parts[b"M"])

    def answer(self):
        rows, refused = [], None
        kind, body = self.packet()
        while kind != b"Z":
            if kind == b"T":
                rows = []
            elif kind == b"D":
                rows.append(self.row_of(body))
            elif kind == b"K":
                self.id = struct.unpack_from(">I", body)[0]
            elif kind == b"A":
                channel, text = body[4:].split(b"\0")[:2]
                self.messages.append((channel.decode(), text.decode()))
            elif kind == b"E":
                refused = self.refusal_of(body)
                if not self.id:
                    raise refused
            kind, body = self.packet()
        if refused:
            raise refused
        return rows


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def signal_to(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Postgres(Database):
    """postgres. Options of Database.

    Passwords are kept and asked for as SCRAM-SHA-256. It is many processes: kill(), freeze() and
    thaw() are of all of them; whoever kills the tests while it is frozen leaves some behind."""

    name = engine = "postgres"
    user = "postgres"
    Session = Talk
    PERSIST = {
        "always": {"fsync": "on", "synchronous_commit": "on"},
        "none": {"fsync": "off", "full_page_writes": "off"},
    }
    SLOW = re.compile(r"^(\d+) .*?(?:acquired \w+ on .*? after ([\d.]+) ms"
                      r"|duration: ([\d.]+) ms(.*))$", re.MULTILINE)
    MEANT_TO_WAIT = re.compile("pg_sleep", re.IGNORECASE)

    def make_data(self, path):
        """With the accounts and the database, and with little else: each file is one to copy, and
        one to sync when the server was killed."""
        alone = [f"{PROGRAMS}/postgres", "--single", "-F", "-D", path]
        first = [f"CREATE ROLE {name} LOGIN PASSWORD '{password}'" for name, password in ACCOUNTS]
        first += ["ALTER DATABASE template0 IS_TEMPLATE false", "DROP DATABASE template0",
                  f"ALTER DATABASE postgres RENAME TO {DATABASE}",
                  f"ALTER DATABASE {DATABASE} OWNER TO {OWNER.name}",
                  f"REVOKE CONNECT ON DATABASE {DATABASE} FROM PUBLIC",
                  f"GRANT CONNECT ON DATABASE {DATABASE} TO {CLERK.name}"]
        rights = [f"ALTER DEFAULT PRIVILEGES FOR ROLE {OWNER.name} GRANT {right} TO {CLERK.name}"
                  for right in ("SELECT, INSERT, UPDATE, DELETE ON TABLES", "USAGE ON SEQUENCES")]
        return [([f"{PROGRAMS}/initdb", f"--pgdata={path}", f"--username={ADMIN}", "--auth=trust",
                  "--no-locale", "--encoding=UTF8", "--no-sync", "--wal-segsize=1"], None),
                ([*alone, NOWHERE], "\n".join(first) + "\n"),
                ([*alone, DATABASE], "\n".join(rights) + "\n")]

    def socket_path(self):
        return self.path(f".s.PGSQL.{self.port}")

    def rules(self):
        """Who may come in, and how: the tests by the socket, others by a password."""
        tls = self.options.get("tls")
        way = "hostssl" if tls else "host"
        more = " clientcert=verify-ca" if tls == "client" else ""
        return (f"local all,replication {ADMIN} trust\n"
                f"{way} all all 127.0.0.1/32 scram-sha-256{more}\n")

    def settings(self):
        """Slow statements and waits for locks are written down, for stalls()."""
        values = {"port": self.port, "listen_addresses": "127.0.0.1", "log_line_prefix": "%p ",
                  "unix_socket_directories": self.folder, "shared_buffers": "16MB",
                  "max_wal_size": "64MB", "min_wal_size": "8MB", "logging_collector": "off",
                  "log_min_duration_statement": self.STALL_MS, "log_lock_waits": "on",
                  "deadlock_timeout": self.STALL_MS, "hba_file": self.path("rules"),
                  "password_encryption": "scram-sha-256", "jit": "off",
                  "max_connections": self.options.get("max_connections", 400),  # two of a client
                  **self.PERSIST[self.options.get("persist", "always")]}
        if self.options.get("idle_s"):
            values["idle_session_timeout"] = f"{self.options['idle_s']}s"
        if self.options.get("tls"):
            made = self.place.certificates
            values |= {"ssl": "on", "ssl_cert_file": made.server, "ssl_ca_file": made.ca,
                       "ssl_key_file": self.own_key()}
        return values | self.options.get("config", {})

    def own_key(self):
        """It wants one that is nobody else's."""
        path = self.path("server.key")
        if not os.path.exists(path):
            with open(self.place.certificates.key("server"), encoding="utf-8") as file:
                text = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o600)
            self.give_away(path)
        return path

    def command(self):
        with open(self.path("rules"), "w", encoding="utf-8") as file:
            file.write(self.rules())
        words = [f"{PROGRAMS}/postgres", "-D", self.path("data")]
        for name, value in self.settings().items():
            words += ["-c", f"{name}={value}"] if value is not None else []
        return words

    def is_ready(self):
        """As it writes into a file: whoever asks by a connection too early keeps it busy."""
        try:
            with open(self.path("data/postmaster.pid"), encoding="utf-8") as file:
                lines = file.read().split()
        except OSError:
            return False
        return lines[:1] == [str(self.process.pid)] and lines[-1] in ("ready", "standby")

    def settle(self):
        if self.options.get("read_only"):
            self.be_read_only(True)

    def connections(self):
        return [Connection(int(number), *rest) for number, *rest in self.sql(
            "SELECT pid, usename, state, query FROM pg_stat_activity WHERE backend_type ="
            f" 'client backend' AND usename <> '{ADMIN}' ORDER BY backend_start", database=None)]

    def kill_connection(self, number):
        self.sql(f"SELECT pg_terminate_backend({number})", database=None)

    def tables(self):
        return [name for name, in self.sql("SELECT tablename FROM pg_tables WHERE schemaname ="
                                           " 'public' ORDER BY tablename")]

    def be_read_only(self, wanted):
        """For the transactions that begin from now on; also after another start."""
        with self.session(None) as session:
            before = session.sql("SELECT clock_timestamp()")[0][0]
            session.sql("ALTER SYSTEM SET default_transaction_read_only ="
                        f" {'on' if wanted else 'off'}")
            session.sql("SELECT pg_reload_conf()")
        wait_until(lambda: self.sql(f"SELECT pg_conf_load_time() > '{before}'", database=None)
                   == [("t",)], f"{self.name} has heard of it")

    def stalls(self):
        """{what: the longest in ms} that a statement took, without its waits for locks, when that
        was STALL_MS or longer."""
        found, waited = {}, {}
        for pid, wait, taken, text in self.SLOW.findall(self.log()[self.log_seen:]):
            if wait:
                waited[pid] = waited.get(pid, 0) + float(wait)
                continue
            ms = round(float(taken) - waited.pop(pid, 0))
            if ms >= self.STALL_MS and not self.MEANT_TO_WAIT.search(text):
                found["a statement"] = max(found.get("a statement", 0), ms)
        return found

    # --- many processes ---

    def freeze(self):
        """The first one first: then there are no new ones."""
        super().freeze()
        children = children_of(self.process.pid)
        for pid in children:
            signal_to(pid, signal.SIGSTOP)
        wait_until(lambda: all(map(stands_still, children)), f"{self.name} stands still")

    def thaw(self):
        for pid in children_of(self.process.pid):
            signal_to(pid, signal.SIGCONT)
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        """Those who are connected are sent away."""
        if self.process is not None:
            self.thaw()
        self.end(signal.SIGINT)

    def kill(self):
        """None of them is left to hold what the next start needs."""
        if self.process is None:
            return
        self.freeze()
        children = children_of(self.process.pid)
        for pid in (self.process.pid, *children):
            signal_to(pid, signal.SIGKILL)
        super().kill()
        wait_until(lambda: all(state_of(pid) == "X" for pid in children), f"{self.name} is gone")


class PostgresReplica(Postgres):
    """A hot standby: it repeats what another does, and is read meanwhile. Options of Postgres, and

    of        the other: a Postgres"""

    name = "postgres-replica"

    def __init__(self, place, folder, of, **options):
        self.of = of
        super().__init__(place, folder, **options)

    def prepare(self):
        """The other's data as it is now, instead of a template."""
        self.log_seen = 0
        self.is_settled = True
        self.give_away(self.folder)
        user, parent = self.user_entry, os.getpid()
        subprocess.run(
            [f"{PROGRAMS}/pg_basebackup", f"--pgdata={self.path('data')}", "--wal-method=stream",
             "--checkpoint=fast", "--write-recovery-conf", "--no-sync", f"--host={self.of.folder}",
             f"--port={self.of.port}", f"--username={ADMIN}"],
            check=True, capture_output=True, cwd=self.folder,
            preexec_fn=lambda: become(user, parent))

    def follow(self):
        """Waits until it has done all that the other has done by now."""
        place = self.of.sql("SELECT pg_current_wal_lsn()", database=None)[0][0]
        wait_until(lambda: self.sql(f"SELECT pg_last_wal_replay_lsn() >= '{place}'",
                                    database=None) == [("t",)], f"{self.name} follows")

    def promote(self):
        """It follows no longer, and writes."""
        self.sql(f"SELECT pg_promote(true, {LIMIT_S})", database=None)


class PgBouncer(Server):
    """What hands one connection of a Postgres to many clients, in turn. Options:

    of        the Postgres, without TLS
    mode      "transaction" (default), "session", "statement": when it takes the connection back
    size      so many connections of the server (2)"""

    name = "pgbouncer"
    engine = "postgres"
    user = "postgres"
    speech = None

    @property
    def of(self):
        return self.options["of"]

    def command(self):
        settings = {"listen_addr": "127.0.0.1", "listen_port": self.port, "unix_socket_dir": "",
                    "auth_type": "scram-sha-256", "auth_file": self.path("accounts"),
                    "pool_mode": self.options.get("mode", "transaction"),
                    "default_pool_size": self.options.get("size", 2), "admin_users": OWNER.name}
        self.write("accounts", "".join(f'"{name}" "{password}"\n' for name, password in ACCOUNTS))
        self.write("settings", "[databases]\n"
                   f"{DATABASE} = host=127.0.0.1 port={self.of.port} dbname={DATABASE}\n"
                   "[pgbouncer]\n"
                   + "".join(f"{name} = {value}\n" for name, value in settings.items()))
        return ["pgbouncer", self.path("settings")]

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def is_ready(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def url(self, at=None, **options):
        return self.of.url(at=at or [f"127.0.0.1:{self.port}"], **options)
