"""Every exit status of the command, and what it says."""

import os
import pwd
import shutil
import signal
import subprocess

from harness import case, check, check_equal, is_alive, wait_until


@case
def the_commands_own_status_is_answered(world):
    for status in (0, 1, 2, 42, 125, 255):
        world.expect(status, "run", "a", "--", "sh", "-c", f"exit {status}")
    world.check_free("a")


@case
def a_signal_that_ended_the_command_is_128_plus_n(world):
    for name in ("TERM", "KILL", "INT", "SEGV", "USR1", "ABRT"):
        wanted = 128 + getattr(signal, "SIG" + name)
        world.expect(wanted, "run", "a", "--", "sh", "-c", f"ulimit -c 0; kill -{name} $$")
    world.check_free("a")


@case
def a_busy_lock_is_75_without_waiting(world):
    holder = world.hold("a").ready()
    result = world.expect(75, "run", "-n", "a", "--", "touch", "ran")
    check(str(holder.pid) in result.err, f"the message names the holder: {result}")
    result = world.expect(75, "run", "-nq", "a", "--", "touch", "ran")
    check_equal(result.err, "", "what -q says about a busy lock")
    check(not os.path.exists(world.path("ran")), "nothing ran")
    check_equal(world.waiters("a"), [], "waiters left")
    holder.end()


@case
def a_wait_that_ends_is_75(world):
    holder = world.hold("a").ready()
    world.expect(75, "run", "-w", "50ms", "a", "--", "touch", "ran")
    world.expect(75, "run", "-w", "0", "a", "--", "touch", "ran")
    world.expect(75, "run", "-w", "0.05", "-s", "a", "--", "touch", "ran")
    check(not os.path.exists(world.path("ran")), "nothing ran")
    check_equal(world.waiters("a"), [], "waiters left")
    holder.end()


@case
def e_chooses_the_status_of_not_acquired(world):
    holder = world.hold("a").ready()
    world.expect(3, "run", "-n", "-E", "3", "a", "--", "true")
    world.expect(0, "run", "-n", "-E", "0", "a", "--", "false")
    world.expect(255, "run", "-w", "20ms", "--conflict-exit-code=255", "a", "--", "true")
    holder.end()
    world.expect(9, "run", "-n", "-E", "3", "a", "--", "sh", "-c", "exit 9")


@case
def a_wait_that_is_long_enough_gets_the_lock(world):
    holder = world.hold("a").ready()
    waiter = world.start("run", "-w", "5m", "a", "--", "sh", "-c", "exit 7")
    world.wait_waiting("a", waiter.pid)
    holder.end()
    check_equal(world.end(waiter).status, 7, "status of the one that waited")


@case
def a_broken_lock_is_79(world):
    holder = world.hold("a").ready()
    world.expect(0, "break", "a", "--fence", world.fence_of("a"))
    result = world.end(holder.process)
    check_equal(result.status, 79, "status of the one that lost it")
    check("lost 'a'" in result.err and "broken" in result.err, f"it says so: {result}")


@case
def a_break_that_is_only_noticed_after_the_commands_end_is_79(world):
    os.mkfifo(world.path("go"))
    process = world.start("run", "--grace", "100ms", "a", "--", "sh", "-c",
                          "echo $$ >pid; read x <go; exit 0")
    pid = world.read_pid("pid")
    os.kill(process.pid, signal.SIGSTOP)
    world.expect(0, "break", "a", "--fence", world.fence_of("a"))
    with open(world.path("go"), "w", encoding="utf-8") as file:
        file.write("go\n")
    wait_until(lambda: not is_alive(pid), "the command's end")
    os.kill(process.pid, signal.SIGCONT)
    check_equal(world.end(process).status, 79, "status")


@case
def a_maximal_hold_that_ends_is_79(world):
    result = world.expect(79, "run", "--max-hold", "300ms", "a", "--", "sleep", "1000")
    check("lost 'a'" in result.err, f"it says so: {result}")
    world.check_free("a")
    world.expect(4, "run", "--max-hold", "5m", "a", "--", "sh", "-c", "exit 4")


@case
def what_cannot_be_executed_is_126_and_gives_the_lock_back(world):
    world.write("plain", "#!/bin/sh\n")
    for command in ("./plain", "/", "/dev/null"):
        result = world.expect(126, "run", "a", "--", command)
        check(f"'{command}'" in result.err, f"the message names it: {result}")
        world.check_free("a")


@case
def what_is_not_found_is_127_and_gives_the_lock_back(world):
    for command in ("no-such-command", "./no/such", "/no/such", ""):
        result = world.expect(127, "run", "a", "--", command)
        check(f"'{command}'" in result.err, f"the message names it: {result}")
        world.check_free("a")


@case
def the_path_is_searched_as_a_shell_does(world):
    os.mkdir(world.path("one"))
    os.mkdir(world.path("two"))
    world.write("one/tool", "not executable\n")
    world.write("two/tool", "echo from two: $1\n", executable=True)  # without #!: a shell's
    search = f"{world.path('one')}:{world.path('two')}:/usr/bin:/bin"
    environment = {**world.environment, "PATH": search}
    result = world.expect(0, "run", "a", "--", "tool", "word", env=environment)
    check_equal(result.out, "from two: word\n", "what the tool prints")
    environment["PATH"] = world.path("one")
    world.expect(126, "run", "a", "--", "tool", env=environment)
    environment["PATH"] = ""
    world.expect(127, "run", "a", "--", "tool", env=environment)
    if os.getuid() == 0:  # who may search everywhere
        return
    os.chmod(world.path("one"), 0)
    environment["PATH"] = world.path("one") + ":/usr/bin"
    world.expect(127, "run", "a", "--", "tool", env=environment)
    os.chmod(world.path("one"), 0o700)


USAGE = (
    (("run",), "NAME"),
    (("run", "a"), "--"),
    (("run", "a", "--"), "command"),
    (("run", "a", "true"), "'true'"),
    (("run", "a", "b", "--", "true"), "'b'"),
    (("run", "-n"), "NAME"),
    (("run", "--nonsense", "a", "--", "true"), "'--nonsense'"),
    (("run", "-Z", "a", "--", "true"), "'-Z'"),
    (("run", "-nZ", "a", "--", "true"), "'-Z'"),
    (("run", "-w"), "'-w'"),
    (("run", "-w", "soon", "a", "--", "true"), "'soon'"),
    (("run", "-w", "-1s", "a", "--", "true"), "'-1s'"),
    (("run", "-w", "1y", "a", "--", "true"), "'1y'"),
    (("run", "-w", "1 s", "a", "--", "true"), "'1 s'"),
    (("run", "-w", "99999999999999999999", "a", "--", "true"), "'-w'"),
    (("run", "-w", "", "a", "--", "true"), "'-w'"),
    (("run", "-E", "256", "a", "--", "true"), "'-E'"),
    (("run", "-E", "x", "a", "--", "true"), "'-E'"),
    (("run", "--lease", "5", "--grace", "2s", "a", "--", "true"), "'--grace'"),
    (("run", "--lease", "99ms", "a", "--", "true"), "'--lease'"),
    (("run", "--lease", "25h", "a", "--", "true"), "'--lease'"),
    (("run", "--lease", "0", "a", "--", "true"), "'--lease'"),
    (("run", "--max-hold", "0", "a", "--", "true"), "'--max-hold'"),
    (("run", "--max-hold", "1s", "--grace", "1s", "a", "--", "true"), "'--grace'"),
    (("run", "--status-fd", "77", "a", "--", "true"), "'--status-fd'"),
    (("run", "--status-fd", "x", "a", "--", "true"), "'--status-fd'"),
    (("run", "--require", "luck", "a", "--", "true"), "'luck'"),
    (("run", "--require", "", "a", "--", "true"), "'--require'"),
    (("ls", "a", "b"), "'b'"),
    (("ls", "--nonsense"), "'--nonsense'"),
    (("show",), "NAME"),
    (("show", "a", "b"), "'b'"),
    (("break", "a"), "'--fence'"),
    (("break", "--fence", "1"), "NAME"),
    (("break", "a", "--fence", "0"), "'--fence'"),
    (("break", "a", "--fence", "1x"), "'1x'"),
    (("break", "a", "--fence", "-1"), "'-1'"),
    (("break", "a", "--fence", "18446744073709551616"), "'--fence'"),
    (("break", "a", "b", "--fence", "1"), "'b'"),
    (("engines", "a"), "'a'"),
    (("engines", "--schema", "abacus"), "'abacus'"),
    (("version", "a"), "'a'"),
    (("help", "nonsense"), "'nonsense'"),
    (("help", "run", "ls"), "'ls'"),
    (("nonsense",), "'nonsense'"),
    (("--nonsense",), "'--nonsense'"),
    (("-u", "file:x", "ls"), "'-u'"),
)


@case
def usage_errors_are_64_and_name_the_word(world):
    for words, named in USAGE:
        result = world.expect(64, *words)
        check(named in result.err, f"{words}: the message names {named}: {result}")
        check_equal(result.out, "", f"{words}: standard output")


@case
def durations_are_understood(world):
    """A grace that is too long is told in milliseconds."""
    for text, ms in (("250ms", 250), ("30s", 30000), ("5m", 300000), ("2h", 7200000), ("1", 1000),
                     ("1.5s", 1500), ("0.25", 250), ("0.05m", 3000), ("100.5ms", 101),
                     ("00100ms", 100), ("1.999999999s", 2000)):
        result = world.expect(64, "run", "--lease", "100ms", "--grace", text, "a", "--", "true")
        check(f" {ms} ms " in result.err, f"{text} is {ms} ms: {result}")
    for text in ("1.s", ".5s", "1e3", "1S", "1min", "+1", "0x1", "1,5s", "1.0000000001s", "ms"):
        result = world.expect(64, "run", "--grace", text, "a", "--", "true")
        check(f"'{text}' is not a duration" in result.err, f"{text}: {result}")


@case
def a_name_that_is_none_is_65(world):
    for name in ("", "x" * 1025):
        for words in (("run", name, "--", "true"), ("show", name), ("break", name, "--fence", "1")):
            world.expect(65, *words)


@case
def odd_names_work_and_are_distinct(world):
    names = ["a", "A", "a ", " a", "a/b", "..", ".", "/", "-n", "--", "a\nb", "\x1b[2J", "*", "?",
             "a*", "\\", "a\\*", "~x61", "\u00e9", "e\u0301", "x" * 1024, "\u00e9" * 512]
    names = [name.encode() for name in names] + [b"\xff\xfe", b"\x01", bytes(range(1, 256))]
    for name in names:
        words = ("run", "--", name, "--") if name.startswith(b"-") else ("run", name, "--")
        result = world.expect(0, *words, "sh", "-c", 'printf %s "$HOLDFAST_NAME" | od -An -v -tx1')
        check_equal(bytes.fromhex(result.out), name, "the name as the command sees it")
    processes = []
    for name in names:
        words = ("run", "--", name, "--") if name.startswith(b"-") else ("run", name, "--")
        processes.append(world.start(*words, "cat", stdin=subprocess.PIPE))
    wait_until(lambda: world.holdfast("ls", "--json").out.count('"waiting":false') == len(names),
               "all of them hold their lock at the same time")
    for process in processes:
        check_equal(world.end(process).status, 0, "status")


@case
def a_bad_url_is_78(world):
    for url in ("nonsense", "nosuch://host", "://", "file", "file:x?nonsense=1",
                "file:x?recipe=nosuch"):
        for words in (("run", "a", "--", "true"), ("ls",), ("show", "a"),
                      ("break", "a", "--fence", "1")):
            result = world.expect(78, words[0], "-u", url, *words[1:])
            check(result.err.startswith("holdfast: "), f"a message: {result}")
    environment = {**world.environment, "HOLDFAST_URL": "nonsense"}
    world.expect(78, "ls", env=environment)


@case
def a_promise_that_cannot_be_kept_is_78(world):
    result = world.expect(78, "run", "--require", "failover", "a", "--", "touch", "ran")
    check("failover" in result.err, f"it is named: {result}")
    world.expect(78, "ls", "--require", "fence,failover")
    world.expect(0, "run", "--require", "fence,fair,wakeup,shared,crash", "a", "--", "true")


@case
def a_directory_that_is_not_ours_is_77(world):
    """Root may do anything, and becomes nobody first; others shut the door before themselves."""
    world.expect(0, "run", "a", "--", "true")
    options = {}
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chmod(world.folder, 0o755)
        options = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    else:
        os.chmod(world.path("locks"), 0)
    for words in (("run", "a", "--", "true"), ("ls",)):
        result = world.holdfast(*words, **options)
        check_equal(result.status, 77, f"{words}: {result}")
    os.chmod(world.path("locks"), 0o700)


@case
def a_store_that_holds_garbage_is_76(world):
    world.expect(0, "run", "a", "--", "true")
    files = [name for name in os.listdir(world.path("locks"))
             if os.path.getsize(world.path("locks/" + name)) > 0]
    check(files, "the store has files")
    for name in files:
        url = "file:" + world.path("copy-" + name)
        shutil.copytree(world.path("locks"), world.path("copy-" + name))
        with open(world.path(f"copy-{name}/{name}"), "r+b") as file:
            file.write(os.urandom(4096))
        for words in (("run", "a", "--", "touch", "ran"), ("ls",)):
            result = world.expect(76, words[0], "-u", url, *words[1:])
            check(name in result.err, f"the message names the file: {result}")
    check(not os.path.exists(world.path("ran")), "nothing ran")


@case
def a_system_that_refuses_is_71(world):
    world.write("file", "not a directory\n")
    result = world.expect(71, "ls", "-u", f"file:{world.path('file')}/locks")
    check(result.err.startswith("holdfast: "), f"a message: {result}")
    with open("/dev/full", "w", encoding="utf-8") as full:
        world.expect(71, "help", stdout=full)


@case
def the_lock_is_free_at_once_after_timeout(world):
    script = "echo $$ >pid; sleep 1000 & echo $! >child; wait"
    command = ["timeout", "1", world.command, "run", "a", "--", "sh", "-c", script]
    process = subprocess.Popen(command, cwd=world.folder, env=world.environment,
                               stdin=subprocess.DEVNULL)
    process.wait(60)
    check_equal(process.returncode, 124, "status of timeout")
    world.check_free("a")
    for name in ("pid", "child"):
        check(not is_alive(world.read_pid(name)), f"{name} is dead")
    world.expect(0, "run", "-n", "a", "--", "true")


@case
def every_answer_of_the_library_has_its_status(world):
    """Those that no store of this build gives: the table itself is compiled and asked."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sources = [os.path.join(root, "cli", name)
               for name in ("exit.c", "say.c", "text.c", "memory.c")]
    subprocess.run(["cc", "-D_GNU_SOURCE", "-std=gnu17", "-I" + os.path.join(root, "include"),
                    "-I" + os.path.join(root, "cli"), os.path.join(root, "test/cli/exit_table.c"),
                    *sources, "-o", world.path("exit_table")], check=True)
    done = subprocess.run([world.path("exit_table")], capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stdout + done.stderr)
