"""MariaDB for tests: one server, its replica, or a Galera cluster of one.

    mariadb = place.add(MariaDB, idle_s=5)
    ... mariadb.url(recipe="queue"), mariadb.sql("SELECT 1"), mariadb.connections()
    primary = place.add(MariaDB, binlog=True)
    replica = place.add(MariaDBReplica, of=primary)
    replica.follow(); replica.promote()
    galera = place.add(Galera)

mariadbd is run as it is, from Debian's mariadb-server-core: no service, no settings of the machine.
"""

import os
import re
import struct

from database import (ACCOUNTS, CLERK, DATABASE, OWNER, Connection, Database, Refused, Session)
from servers import LIMIT_S, ServerError, free_port, wait_until

PACKET_BYTES_MAX = (1 << 24) - 1


class Talk(Session):
    """The client/server protocol of MariaDB, as far as root without a password needs it."""

    MULTI_STATEMENTS, MULTI_RESULTS = 1 << 16, 1 << 17
    ABILITIES = (1 | 1 << 9 | 1 << 13 | 1 << 15 | MULTI_STATEMENTS | MULTI_RESULTS | 1 << 19)
    UTF8MB4 = 45
    MORE = 8  # in a status: another result follows
    QUERY, CHOOSE = b"\x03", b"\x02"

    def greet(self, database):
        hello = self.packet()
        self.check(hello)
        version_end = hello.index(0, 1)
        self.id = struct.unpack_from("<I", hello, version_end + 1)[0]
        self.put(struct.pack("<IIB23x", self.ABILITIES, PACKET_BYTES_MAX, self.UTF8MB4)
                 + b"root\0\0mysql_native_password\0", number=1)
        self.check(self.packet())
        self.changed = 0
        if database:
            self.put(self.CHOOSE + database.encode())
            self.check(self.packet())

    def packet(self):
        head = self.take(4)
        return self.take(int.from_bytes(head[:3], "little"))

    def put(self, data, number=0):
        assert len(data) < PACKET_BYTES_MAX
        self.socket.sendall(len(data).to_bytes(3, "little") + bytes([number]) + data)

    @staticmethod
    def check(packet):
        if packet[:1] == b"\xff":
            text = packet[3:].decode(errors="replace")
            raise Refused(int.from_bytes(packet[1:3], "little"), text[6:] if text[:1] == "#"
                          else text)

    @staticmethod
    def number_at(packet, at):
        """A number that says how long it is, and where it ends."""
        first = packet[at]
        size = {0xfc: 2, 0xfd: 3, 0xfe: 8}.get(first, 0)
        if not size:
            return first, at + 1
        return int.from_bytes(packet[at + 1:at + 1 + size], "little"), at + 1 + size

    def row_of(self, packet, columns):
        row, at = [], 0
        for _ in range(columns):
            if packet[at] == 0xfb:
                row.append(None)
                at += 1
                continue
            size, at = self.number_at(packet, at)
            row.append(packet[at:at + size].decode(errors="surrogateescape"))
            at += size
        return tuple(row)

    def send(self, text):
        self.put(self.QUERY + text.encode())

    def rows_of(self, columns):
        """What follows the number of columns, and the status behind it."""
        for _ in range(columns + 1):
            self.packet()
        rows = []
        packet = self.packet()
        while not (packet[0] == 0xfe and len(packet) < 9):
            self.check(packet)
            rows.append(self.row_of(packet, columns))
            packet = self.packet()
        return rows, struct.unpack_from("<H", packet, 3)[0]

    def answer(self):
        """Also sets `changed`, the number of rows that the last statement without rows changed."""
        rows, status = [], self.MORE
        while status & self.MORE:
            packet = self.packet()
            self.check(packet)
            if packet[0]:
                rows, status = self.rows_of(packet[0])
                continue
            self.changed, at = self.number_at(packet, 1)
            _, at = self.number_at(packet, at)
            status = struct.unpack_from("<H", packet, at)[0]
        return rows


class MariaDB(Database):
    """mariadbd. Options of Database, and

    binlog    True: it keeps the binary log that a replica reads

    Without TLS asked for it has none. Its general log is off; slow statements are written down, for
    stalls()."""

    name = engine = "mysql"
    Session = Talk
    COPIER = ("copier", "of-the-tests")
    SMALL = ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M",
             "--innodb-temp-data-file-path=ibtmp1:1M:autoextend", "--skip-name-resolve",
             "--performance-schema=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF",
             "--innodb-buffer-pool-load-at-startup=OFF", "--log-warnings=1",
             "--max-connections=600"]  # three of a client
    PERSIST = {
        "always": ["--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"],
        "none": ["--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0",
                 "--innodb-flush-method=nosync"],
    }
    SLOW = re.compile(r"Query_time: ([\d.]+)\s+Lock_time: ([\d.]+).*?\n"
                      r"((?:(?!# Time|# User).*\n)*)")
    # Of a CALL the log does not tell how long it waited for a row (Lock_time is 0 after a second):
    # so a call of the recipe for-update that may wait, as its second value says, is known by its
    # name.
    MEANT_TO_WAIT = re.compile(r"get_lock|sleep|for update|share mode|for share"
                               r"|for_update_lock_\d+\(.*, *[1-9]\d* *, *\d+ *\)",
                               re.IGNORECASE | re.DOTALL)
    UNKNOWN_THREAD = 1094
    server_number = 1

    def make_data(self, path):
        return [(["mariadb-install-db", "--no-defaults", f"--datadir={path}", "--skip-test-db",
                  "--auth-root-authentication-method=normal", *self.SMALL, *self.PERSIST["none"]],
                 None)]

    def socket_path(self):
        return self.path("socket")

    def command(self):
        tls = self.options.get("tls")
        words = ["mariadbd", "--no-defaults", "--bind-address=127.0.0.1", f"--port={self.port}",
                 f"--datadir={self.path('data')}", f"--socket={self.socket_path()}",
                 f"--pid-file={self.path('pid')}", f"--tmpdir={self.folder}",
                 f"--server-id={self.server_number}", "--slow-query-log=ON", "--log-output=FILE",
                 f"--slow-query-log-file={self.path('slow')}",
                 f"--long-query-time={self.STALL_MS / 1000}", *self.SMALL,
                 *self.PERSIST[self.options.get("persist", "always")]]
        if self.options.get("binlog"):
            words += [f"--log-bin={self.path('data/binlog')}", "--binlog-format=ROW"]
        if tls:
            made = self.place.certificates
            words += [f"--ssl-cert={made.server}", f"--ssl-key={made.key('server')}",
                      f"--ssl-ca={made.ca}", "--require-secure-transport=ON"]
        for option, name in (("max_connections", "max-connections"), ("idle_s", "wait-timeout")):
            if self.options.get(option):
                words.append(f"--{name}={self.options[option]}")
        if self.options.get("read_only"):
            words.append("--read-only=ON")
        return words + [f"--{option}={value}"
                        for option, value in self.options.get("config", {}).items()]

    def settle(self):
        """Whether a certificate is wanted is a matter of the accounts here."""
        ask = " REQUIRE X509" if self.options.get("tls") == "client" else ""
        statements = [f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4"]
        statements += [f"CREATE USER '{name}'@'%' IDENTIFIED BY '{password}'{ask}"
                       for name, password in ACCOUNTS]
        statements += [f"GRANT ALL ON {DATABASE}.* TO '{OWNER.name}'@'%'",
                       "GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON "
                       f"{DATABASE}.* TO '{CLERK.name}'@'%'"]
        if self.options.get("binlog"):
            statements += ["GRANT REPLICATION SLAVE ON *.* TO '%s'@'%%' IDENTIFIED BY '%s'"
                           % self.COPIER]
        self.sql(";".join(statements), database=None)

    def connections(self):
        return [Connection(int(number), user, state, statement)
                for number, user, state, statement in self.sql(
                    "SELECT id, user, command, info FROM information_schema.processlist"
                    " WHERE user IN ('owner', 'clerk', 'guest') ORDER BY id", database=None)]

    def kill_connection(self, number):
        """One that has just gone by itself will do, too."""
        try:
            self.sql(f"KILL {number}", database=None)
        except Refused as refused:
            if refused.code != self.UNKNOWN_THREAD:
                raise

    def tables(self):
        return [name for name, in self.sql(
            "SELECT table_name FROM information_schema.tables"
            f" WHERE table_schema = '{DATABASE}' ORDER BY table_name", database=None)]

    def be_read_only(self, wanted):
        """Waits for the statements that write; from then on others are refused, or no longer."""
        self.options["read_only"] = wanted
        self.sql(f"SET GLOBAL read_only = {int(wanted)}", database=None)

    def slow(self):
        """The text of the log of slow statements."""
        try:
            with open(self.path("slow"), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def stalls(self):
        """{what: the longest in ms} that a statement took that was not meant to wait, when that was
        STALL_MS or longer. It does not tell how long an UPDATE waited for a row."""
        found = {}
        for taken, waited, text in self.SLOW.findall(self.slow()[self.log_seen:]):
            ms = round(1000 * (float(taken) - float(waited)))
            if ms >= self.STALL_MS and not self.MEANT_TO_WAIT.search(text):
                found["a statement"] = max(found.get("a statement", 0), ms)
        return found

    def forget_stalls(self):
        self.log_seen = len(self.slow())


class MariaDBReplica(MariaDB):
    """One that repeats what another does, and refuses to write itself. Options of MariaDB, and

    of        the other: a MariaDB with binlog=True, without TLS"""

    name = "mysql-replica"
    server_number = 2

    def __init__(self, place, folder, of, **options):
        self.of = of
        super().__init__(place, folder, **{"read_only": True, "binlog": True, **options})

    def settle(self):
        """They come with the rest."""
        user, password = self.COPIER
        self.sql(f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.of.port},"
                 f" MASTER_USER='{user}', MASTER_PASSWORD='{password}', MASTER_USE_GTID=slave_pos,"
                 " MASTER_CONNECT_RETRY=1; START SLAVE", database=None)
        self.follow()

    def follow(self):
        """Waits until it has done all that the other has done by now."""
        place = self.of.sql("SELECT @@gtid_binlog_pos", database=None)[0][0]
        done = self.sql(f"SELECT MASTER_GTID_WAIT('{place}', {LIMIT_S})", database=None)[0][0]
        if done != "0":
            raise ServerError(f"{self.name} does not follow")

    def promote(self):
        """It follows no longer, and writes."""
        self.sql("STOP SLAVE; RESET SLAVE ALL", database=None)
        self.be_read_only(False)


class Galera(MariaDB):
    """A cluster of one, which says of itself what every cluster says. Options of MariaDB."""

    name = "mysql-galera"
    PROVIDER = "/usr/lib/galera/libgalera_smm.so"

    def prepare(self):
        super().prepare()
        self.cluster_port = free_port()

    def command(self):
        """It forgets who was the last of the cluster to go: there was only one."""
        state = self.path("data/grastate.dat")
        if os.path.exists(state):
            os.remove(state)
        return super().command() + [
            "--wsrep-on=ON", f"--wsrep-provider={self.PROVIDER}",
            "--wsrep-cluster-address=gcomm://", "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2", "--wsrep-node-address=127.0.0.1",
            "--wsrep-provider-options=gcache.size=1M;gmcast.listen_addr="
            f"tcp://127.0.0.1:{self.cluster_port}"]

    def settle(self):
        self.wait_for_cluster()
        super().settle()

    def start(self):
        super().start()
        self.wait_for_cluster()
        return self

    def wait_for_cluster(self):
        wait_until(lambda: self.sql("SHOW STATUS LIKE 'wsrep_ready'", database=None)
                   == [("wsrep_ready", "ON")], "the cluster is ready")
