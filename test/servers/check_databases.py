"""Do the databases of the tests come and go as they should? Cases for test/servers/check.

What a client would see is asked of the servers' own client programs, by the URLs' accounts.
"""

import os
import pwd
import signal
import subprocess
import tempfile
import time
import urllib.parse

from database import CLERK, DATABASE, GUEST, OWNER, Refused, state_of
from mariadb import Galera, MariaDB, MariaDBReplica
from postgres import PgBouncer, Postgres, PostgresReplica, children_of
from servers import Place, ServerError, wait_until

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run")
CASES = []
DENIED = {"mysql": {OWNER: "", CLERK: "1142", GUEST: "1044"},
          "postgres": {OWNER: "", CLERK: "permission denied for schema",
                       GUEST: "permission denied for database"}}


def case(function):
    CASES.append(function)
    return function


def for_both(function):
    """The same case for each kind."""
    for kind in (MariaDB, Postgres):
        def one(kind=kind):
            function(kind)
        one.__name__ = f"{kind.name}_{function.__name__}"
        CASES.append(one)
    return function


def ask(server, statement, certificate=False, tls=None, **options):
    """(what the server's client program prints, "") or ("", why not), by the URL of the server."""
    where = urllib.parse.urlsplit(server.url(**options))
    made = server.place.certificates if tls else None
    shown = [made.client, client_key(server)] if certificate else []
    user, password = (urllib.parse.unquote(part) for part in (where.username, where.password))
    environment = {**os.environ, "PGPASSWORD": password, "MYSQL_PWD": password}
    if server.engine == "postgres":
        words = (f"host={where.hostname} port={where.port} user={user} dbname={DATABASE}"
                 f" sslmode={'verify-full' if tls else 'disable'}")
        words += f" sslrootcert={made.ca}" if tls else ""
        environment |= dict(zip(("PGSSLCERT", "PGSSLKEY"), shown))
        command = ["psql", "-X", "-Atq", "-d", words, "-c", statement]
    else:
        command = ["mariadb", "--no-defaults", "--protocol=tcp", f"--host={where.hostname}",
                   f"--port={where.port}", f"--user={user}", "-NB", "-D", DATABASE, "-e", statement]
        command += [f"--ssl-ca={made.ca}", "--ssl-verify-server-cert"] if tls else ["--skip-ssl"]
        command += [word + path for word, path in zip(("--ssl-cert=", "--ssl-key="), shown)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return ("", done.stderr) if done.returncode else (done.stdout.strip(), "")


def client_key(server):
    """As psql wants it: nobody else's."""
    path = os.path.join(server.place.folder, "client.key")
    with open(server.place.certificates.key("client"), encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o600)
    return path


def refusal(call, *words):
    """The code by which the server refused."""
    try:
        call(*words)
    except Refused as refused:
        return str(refused.code)
    raise AssertionError(f"done: {words}")


@for_both
def answers_and_is_gone_with_its_place(kind):
    with Place() as place:
        server = place.add(kind)
        assert server.sql("SELECT 1 + 1, NULL, 'x'") == [("2", None, "x")]
        assert server.sql("SELECT 1; SELECT 2") == [("2",)]
        assert server.tables() == [] and server.connections() == []
        assert server.url(recipe="queue") == (
            f"{kind.name}://owner:se%40cret%3A%2F%3F@127.0.0.1:{server.port}/locks?recipe=queue")
        assert server.url(who=CLERK, at=["h:1"]) == f"{kind.name}://clerk:of-the-tests@h:1/locks"
        pid = server.process.pid
        pids = living([pid, *children_of(pid)])
        assert pid in pids and (len(pids) > 1 or kind is MariaDB)
        wanted = pwd.getpwnam(kind.user).pw_uid if os.geteuid() == 0 else os.geteuid()
        assert {owner_of(each) for each in pids} - {None} == {wanted}
    assert not living(pids) and not os.path.exists(place.folder)


def living(pids):
    """Those that have not ended, as one that served a question soon will have."""
    return [each for each in pids if state_of(each) != "X"]


def owner_of(pid):
    """None: it has ended meanwhile."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except FileNotFoundError:
        return None


@for_both
def ends_when_the_runner_is_killed(kind):
    """With all its processes; the folders are left, in one of ours."""
    with tempfile.TemporaryDirectory(prefix="killed-") as folder:
        os.chmod(folder, 0o755)
        with subprocess.Popen([RUN, kind.name, "--", "sh", "-c", "echo $PPID; exec sleep 600"],
                              stdout=subprocess.PIPE, text=True, start_new_session=True,
                              env={**os.environ, "TMPDIR": folder}) as runner:
            pid = int(runner.stdout.readline())
            try:
                wait_until(lambda: len(servers_of(pid)) == 1, "the server alone beside sleep")
                first = servers_of(pid)
                pids = first + children_of(first[0])
                assert len(pids) > 1 or kind is MariaDB
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda: all(state_of(each) == "X" for each in pids), "the servers' end")
            finally:
                os.killpg(runner.pid, signal.SIGKILL)


def servers_of(pid):
    """Its children but `sleep`, which has no name yet while it begins."""
    return [each for each in children_of(pid) if "sleep" not in name_of(each)]


def name_of(pid):
    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
        return file.read()


@for_both
def keeps_what_was_committed(kind):
    for persist in ("always", "none"):
        with Place() as place:
            server = place.add(kind, persist=persist)
            port = server.port
            server.sql("CREATE TABLE a (n INT)")
            for number, end in enumerate((server.kill, server.stop)):
                with server.session() as session:
                    session.sql("BEGIN")
                    session.sql("INSERT INTO a VALUES (99)")
                    server.sql(f"INSERT INTO a VALUES ({number})")
                    end()
                    server.start()
                    try:
                        session.sql("COMMIT")
                        assert False, "it was committed"
                    except (OSError, ServerError):
                        pass
            assert server.sql("SELECT n FROM a ORDER BY n") == [("0",), ("1",)], persist
            assert server.port == port


@for_both
def waits_for_the_disk_or_not(kind):
    with Place() as place:
        for persist, wanted in (("always", {"1", "on"}), ("none", {"2", "off"})):
            server = place.add(kind, persist=persist)
            setting = server.sql("SHOW fsync" if kind is Postgres else
                                 "SELECT @@innodb_flush_log_at_trx_commit")[0][0]
            assert setting in wanted, (persist, setting)
            server.kill()


@for_both
def stands_still_and_goes_on(kind):
    with Place() as place:
        server = place.add(kind)
        with server.session() as session:
            server.freeze()
            session.send("SELECT 7")
            session.socket.settimeout(0.3)
            try:
                session.take(1)
                assert False, "it answered"
            except TimeoutError:
                pass
        server.thaw()
        assert server.sql("SELECT 7") == [("7",)]
        server.freeze()
        server.kill()
        server.start()
        assert server.sql("SELECT 7") == [("7",)]


@for_both
def speaks_tls_and_nothing_else(kind):
    for tls in (True, "client"):
        with Place() as place:
            server = place.add(kind, tls=tls)
            assert ask(server, "SELECT 5", tls=True, certificate=True) == ("5", "")
            assert ask(server, "SELECT 5", tls=True)[0] == ("5" if tls is True else "")
            assert ask(server, "SELECT 5")[0] == ""
            assert "tls=verify&ca=" in server.url()
            assert ("cert_key=" in server.url()) == (tls == "client")
            assert server.sql("SELECT 5") == [("5",)]


@for_both
def gives_each_account_its_rights(kind):
    with Place() as place:
        server = place.add(kind)
        for who, why in DENIED[kind.name].items():
            said, trouble = ask(server, f"CREATE TABLE of_{who.name} (n INT)", who=who)
            assert not said and why in trouble and bool(why) == bool(trouble), (who, trouble)
        assert server.tables() == ["of_owner"]
        for statement in ("INSERT INTO of_owner VALUES (3)", "UPDATE of_owner SET n = 4",
                          "SELECT n FROM of_owner FOR UPDATE", "DELETE FROM of_owner"):
            said, trouble = ask(server, statement, who=CLERK)
            assert not trouble and said == ("4" if "SELECT" in statement else ""), trouble
            assert ask(server, statement, who=GUEST)[1]
        assert ask(server, "SELECT 1", who=OWNER._replace(password="wrong"))[1]
        server.kill()
        server.start()
        assert server.tables() == ["of_owner"]


@for_both
def shows_its_connections_and_ends_them(kind):
    with Place() as place:
        server = place.add(kind)
        sleep = "SELECT pg_sleep(600)" if kind is Postgres else "SELECT SLEEP(600)"
        command = client_command(server, sleep)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "PGPASSWORD": OWNER.password,
                                   "MYSQL_PWD": OWNER.password}) as client:
            wait_until(lambda: [each for each in server.connections() if each.statement == sleep],
                       "the connection is seen")
            one, = server.connections()
            assert one.user == OWNER.name, one
            server.kill_connection(one.id)
            client.communicate()
            assert client.returncode != 0
        wait_until(lambda: server.connections() == [], "the connection is gone")


def client_command(server, statement):
    where = ["-h", "127.0.0.1"]
    if server.engine == "postgres":
        return ["psql", "-X", *where, "-p", str(server.port), "-U", OWNER.name, "-d", DATABASE,
                "-c", statement]
    return ["mariadb", "--no-defaults", *where, "-P", str(server.port), "-u", OWNER.name,
            "-D", DATABASE, "-e", statement]


@for_both
def lets_a_session_wait_for_another(kind):
    with Place() as place:
        server = place.add(kind)
        take, leave = (("SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)")
                       if kind is Postgres else
                       ("SELECT GET_LOCK('a', 600)", "SELECT RELEASE_LOCK('a')"))
        with server.session() as first, server.session() as second, server.session() as third:
            assert len({first.id, second.id, third.id}) == 3
            first.sql(take)
            second.send(take)
            first.sql(leave)
            second.answer()
            third.send(take)
            server.kill_connection(second.id)
            third.answer()
            try:
                second.sql("SELECT 1")
                assert False, "it was not ended"
            except (OSError, ServerError):
                pass


@for_both
def writes_only_if_it_may(kind):
    with Place() as place:
        server = place.add(kind, read_only=True)
        make = "CREATE TABLE a (n INT)"
        denied = "1290" if kind is MariaDB else "read-only transaction"
        assert denied in ask(server, make)[1]
        server.be_read_only(False)
        assert ask(server, make) == ("", "")
        server.be_read_only(True)
        assert denied in ask(server, "INSERT INTO a VALUES (1)")[1]
        server.kill()
        server.start()
        assert denied in ask(server, "INSERT INTO a VALUES (1)")[1]


@for_both
def lets_in_so_many_and_for_so_long(kind):
    with Place() as place:
        server = place.add(kind, max_connections=10, idle_s=1)
        setting = ("SELECT @@max_connections, @@wait_timeout" if kind is MariaDB else
                   "SELECT current_setting('max_connections'), current_setting"
                   "('idle_session_timeout')")
        assert server.sql(setting) in ([("10", "1")], [("10", "1s")])
        with server.session() as session:
            session.stream.read()  # what it says before it closes
    with Place() as place:
        server = place.add(kind, config={"wait-timeout": 77} if kind is MariaDB else
                           {"work_mem": "77kB"})
        assert server.sql("SELECT @@wait_timeout" if kind is MariaDB else "SHOW work_mem") in (
            [("77",)], [("77kB",)])


@for_both
def says_why_it_refuses(kind):
    with Place() as place:
        server = place.add(kind)
        server.sql("CREATE TABLE a (n INT PRIMARY KEY)")
        server.sql("INSERT INTO a VALUES (1)")
        assert refusal(server.sql, "INSERT INTO a VALUES (1)") in ("1062", "23505")
        assert refusal(server.sql, "SELECT * FROM b") in ("1146", "42P01")
        assert refusal(server.sql, "SELECT 1", "nothing") in ("1049", "3D000")
        with server.session() as session:
            refusal(session.sql, "nonsense")
            assert session.sql("SELECT 1") == [("1",)]


@for_both
def knows_a_stall_from_a_wait(kind):
    with Place() as place:
        server = place.add(kind)
        server.sql("CREATE TABLE a (n INT)")
        server.sql("INSERT INTO a VALUES (1)")
        with server.session() as holder, server.session() as waiter:
            holder.sql("BEGIN")
            holder.sql("UPDATE a SET n = 2")
            waiter.send("SELECT n FROM a FOR UPDATE")
            time.sleep(0.5)
            holder.sql("COMMIT")
            waiter.answer()
        assert server.stalls() == {}, server.log()
        server.sql("SELECT BENCHMARK(5000000, SHA2('a', 512))" if kind is MariaDB else
                   "SELECT count(md5(i::text)) FROM generate_series(1, 3000000) i")
        wait_until(server.stalls, "the stall is seen")
        assert server.stalls()["a statement"] >= server.STALL_MS
        server.forget_stalls()
        assert server.stalls() == {}


@case
def a_replica_follows_refuses_to_write_and_is_promoted():
    for kind, copy, denied in ((MariaDB, MariaDBReplica, "1290"),
                               (Postgres, PostgresReplica, "read-only transaction")):
        with Place() as place:
            primary = place.add(kind, **({"binlog": True} if kind is MariaDB else {}))
            assert ask(primary, "CREATE TABLE a (n INT)") == ("", "")
            replica = place.add(copy, of=primary)
            primary.sql("INSERT INTO a VALUES (1)")
            replica.follow()
            assert ask(replica, "SELECT n FROM a") == ("1", "")
            assert denied in ask(replica, "INSERT INTO a VALUES (2)")[1]
            replica.kill()
            primary.sql("INSERT INTO a VALUES (2)")
            replica.start()
            replica.follow()
            primary.kill()
            replica.promote()
            assert ask(replica, "INSERT INTO a VALUES (3)") == ("", "")
            assert replica.sql("SELECT n FROM a ORDER BY n") == [("1",), ("2",), ("3",)]
            replica.kill()
            replica.start()
            assert ask(replica, "INSERT INTO a VALUES (4)") == ("", "")


@case
def a_pooler_hands_one_connection_to_many():
    with Place() as place:
        server = place.add(Postgres)
        for mode, same in (("transaction", True), ("session", False)):
            pooler = place.add(PgBouncer, of=server, mode=mode, size=2)
            talks = [subprocess.Popen(
                ["psql", "-X", "-Atq", pooler.url()], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True) for _ in range(2)]
            seen = []
            for talk in talks:
                talk.stdin.write("SELECT pg_backend_pid();\n")
                talk.stdin.flush()
                seen.append(talk.stdout.readline())
            for talk in talks:
                talk.communicate()
            assert (seen[0] == seen[1]) == same, (mode, seen)
            pooler.kill()
            pooler.start()
            assert ask(pooler, "SELECT 1") == ("1", "")
            pooler.stop()


@case
def a_galera_says_that_it_is_one():
    with Place() as place:
        galera, plain = place.add(Galera), place.add(MariaDB)
        assert galera.sql("SELECT @@wsrep_on") == [("1",)]
        assert plain.sql("SELECT @@wsrep_on") == [("0",)]
        galera.sql("CREATE TABLE a (n INT PRIMARY KEY)")
        galera.sql("INSERT INTO a VALUES (1)")
        for end in (galera.kill, galera.stop):
            end()
            galera.start()
            assert ask(galera, "SELECT n FROM a") == ("1", "")
