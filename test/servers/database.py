"""What the databases of the tests have in common: accounts, a look inside, a template.

    rows = mariadb.sql("SELECT name, fence FROM hf_lock")        # all values are texts, or None
    with mariadb.session() as session:                           # a connection that stays
        session.sql("BEGIN"); session.send("SELECT ... FOR UPDATE"); ... session.answer()
    mariadb.url(who=CLERK)

A session speaks the server's own protocol on its Unix socket, as somebody who may do everything,
so that it needs no client program and no module, and goes on where the accounts are refused.
"""

import atexit
import collections
import os
import shutil
import socket
import subprocess
import tempfile
import urllib.parse

from servers import LIMIT_S, Place, Server, ServerError, become, wait_until

DATABASE = "locks"
Account = collections.namedtuple("Account", "name password")
OWNER = Account("owner", "se@cret:/?")  # may do everything in the database
CLERK = Account("clerk", "of-the-tests")  # reads and writes in the tables that there are
GUEST = Account("guest", "of-the-tests")  # may nothing there
ACCOUNTS = (OWNER, CLERK, GUEST)
Connection = collections.namedtuple("Connection", "id user state statement")


def state_of(pid):
    """R, S, T ...; X: it is not there, or dead."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0].replace("Z", "X")
    except OSError:
        return "X"


def stands_still(pid):
    """Do all of its threads? Each has to come by before the signal has stopped it."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    return all(state_of(f"{pid}/task/{thread}") in "TX" for thread in threads)


class Refused(ServerError):
    """The server answered by an error: its code, and its text."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


class Session:
    """One connection. A kind of database defines greet(), send() and answer()."""

    id = 0  # by which the server knows it

    def __init__(self, path, database):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LIMIT_S)
        try:
            self.socket.connect(path)
            self.stream = self.socket.makefile("rb")
            self.greet(database)
        except BaseException:
            self.socket.close()
            raise

    def greet(self, database):
        raise NotImplementedError

    def send(self, text):
        """The answer may be long in coming: answer() waits for it."""
        raise NotImplementedError

    def answer(self):
        """[row] of the last statement that had any; an error is raised as Refused."""
        raise NotImplementedError

    def sql(self, text):
        self.send(text)
        return self.answer()

    def take(self, size):
        data = self.stream.read(size)
        if len(data) < size:
            raise ServerError("the server closed the connection")
        return data

    def close(self):
        """As one that dies: nothing is said."""
        self.stream.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Templates:
    """Data directories as their servers' programs make them: made once, and copied."""

    def __init__(self):
        self.folder = None

    def copy(self, name, make, user, to):
        """make(path): [(command, what it reads)] that make and fill a new folder."""
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="templates-")
            os.chmod(self.folder, 0o755)
            atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            self.make(path, make, user)
        subprocess.run(["cp", "-a", os.path.join(path, "data"), to], check=True)

    @staticmethod
    def make(path, make, user):
        os.mkdir(path, 0o755)
        if user:
            os.chown(path, user.pw_uid, user.pw_gid)
        parent = os.getpid()
        for command, text in make(os.path.join(path, "data")):
            done = subprocess.run(command, input=text, cwd=path, capture_output=True, check=False,
                                  text=True, env={**os.environ, "TMPDIR": path},
                                  preexec_fn=lambda: become(user, parent))
            if done.returncode:
                shutil.rmtree(path)
                raise ServerError(f"no data directory: {done.stdout[-999:]}{done.stderr[-999:]}")


TEMPLATES = Templates()


def make_template(kind):
    """Of this kind of server, for the processes that are forked from now on: they need not make
    their own, and would leave it behind where they end at once."""
    with Place() as place:
        place.add(kind, persist="none")


class Database(Server):
    """One server with a database that three accounts know. Options of all kinds:

    persist          "always" (default), "none": whether it waits for the disk
    tls              True: nobody comes in but by TLS; "client": nor without a certificate
    read_only        True: it refuses to write
    max_connections  so many
    idle_s           it ends connections that were silent for so long
    config           {option: value}: more of its own options"""

    speech = None
    STALL_MS = 200
    Session = Session

    def make_data(self, path):
        """[(command, what it reads)] that make a data directory."""
        raise NotImplementedError

    def socket_path(self):
        raise NotImplementedError

    def settle(self):
        """What is left to do once, after the first start."""
        raise NotImplementedError

    def prepare(self):
        self.log_seen = 0
        self.is_settled = False
        TEMPLATES.copy(self.engine, self.make_data, self.user_entry, self.path("data"))

    def is_ready(self):
        try:
            with self.session(None):
                return True
        except (OSError, ServerError):
            return False

    def start(self):
        super().start()
        if not self.is_settled:
            self.settle()
            self.is_settled = True
            self.forget_stalls()
        return self

    def session(self, database=DATABASE):
        return self.Session(self.socket_path(), database)

    def sql(self, text, database=DATABASE):
        """[row] of these statements, on a connection of its own."""
        with self.session(database) as session:
            return session.sql(text)

    def connections(self):
        """[Connection] of clients, other than sessions of the tests; by age."""
        raise NotImplementedError

    def kill_connection(self, number):
        raise NotImplementedError

    def tables(self):
        """The names of the tables in the database, sorted."""
        raise NotImplementedError

    def url(self, at=None, who=OWNER, **options):
        """`who`: an Account; None: nobody."""
        if self.options.get("tls"):
            made = self.place.certificates
            options.setdefault("tls", "verify")
            options.setdefault("ca", made.ca)
            if self.options["tls"] == "client":
                options.setdefault("cert", made.client)
                options.setdefault("cert_key", made.key("client"))
        account = ":".join(urllib.parse.quote(part, "") for part in who) + "@" if who else ""
        where = ",".join(at or [f"127.0.0.1:{self.port}"])
        query = urllib.parse.urlencode(options, quote_via=urllib.parse.quote)
        return f"{self.engine}://{account}{where}/{DATABASE}" + ("?" + query if query else "")

    def freeze(self):
        """Returns when it stands still."""
        super().freeze()
        wait_until(lambda: stands_still(self.process.pid), f"{self.name} stands still")

    def forget_stalls(self):
        self.log_seen = len(self.log())
