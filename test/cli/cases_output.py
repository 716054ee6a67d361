"""What people and programs read."""

import json
import os
import re
import subprocess

from harness import case, check, check_equal, wait_until

KEYS = {"name", "name_hex", "mode", "waiting", "position", "fence", "remaining_ms", "age_ms",
        "host", "pid", "purpose"}
VERBS = ("run", "ls", "show", "break", "engines", "bench", "version", "help")


@case
def every_verb_has_a_page(world):
    for words in ((), ("-h",), ("--help",), ("help",)):
        result = world.expect(0, *words)
        for verb in VERBS:
            check(re.search(rf"^  {verb} ", result.out, re.MULTILINE), f"{words}: {verb} is listed")
    for verb in VERBS:
        page = world.expect(0, "help", verb).out
        check(page.startswith(f"Usage: holdfast {verb}"), f"the page of {verb}")
        check(max(map(len, page.splitlines())) <= 96, f"the page of {verb} is not too wide")
        for option in ("-h", "--help"):
            if verb != "help":
                check_equal(world.expect(0, verb, option).out, page, f"{verb} {option}")


@case
def every_option_of_the_pages_is_understood(world):
    values = {"DUR": "1s", "N": "1", "TEXT": "x", "URL": world.environment["HOLDFAST_URL"],
              "LIST": "fence", "ENGINE": "embedded"}
    for verb in ("run", "ls", "show", "engines"):
        page = world.expect(0, "help", verb).out
        options = re.findall(r"^  ((?:-\w, )?--[\w-]+)(?: (\w+))?", page, re.MULTILINE)
        check(len(options) >= 2, f"options on the page of {verb}")
        for spellings, value in options:
            for option in spellings.split(", "):
                words = [verb, option] + ([values[value]] if value else [])
                if verb == "run":
                    words += ["a", "--", "true"]
                if verb == "show":
                    words += ["a"]
                result = world.holdfast(*words)
                check(result.status in (0, 1), f"{words}: {result}")


@case
def the_version_and_the_engines_are_told(world):
    for words in (("version",), ("--version",)):
        result = world.expect(0, *words)
        check(re.match(r"holdfast \d+\.\d+\.\d+\n", result.out), f"{words}: {result}")
        check("embedded" in result.out, f"{words}: {result}")
    table = world.expect(0, "engines").out
    recipes = json.loads(world.expect(0, "engines", "--json").out)
    check(recipes, "there are recipes")
    for recipe in recipes:
        check_equal(set(recipe), {"engine", "recipe", "default", "legacy", "urls", "promises",
                                  "summary", "caveat"}, "keys")
        check(recipe["engine"] in table and recipe["recipe"] in table, "the table has it too")
        check(recipe["urls"] and recipe["summary"], "it is described")
    check_equal([r["recipe"] for r in recipes if r["engine"] == "embedded" and r["default"]],
                ["queue"], "the default of embedded")
    check_equal(world.expect(0, "engines", "--schema", "embedded").out, "", "SQL of embedded")


@case
def the_bench_is_there(world):
    check("W1" in world.expect(0, "help", "bench").out, "its page")
    world.expect(64, "bench", "--nonsense")


@case
def nobody_is_status_1(world):
    result = world.expect(1, "show", "a")
    check("'a'" in result.err and result.out == "", f"show: {result}")
    check_equal(world.expect(1, "show", "-q", "a").err, "", "show -q")
    result = world.expect(1, "show", "--json", "a")
    check_equal(json.loads(result.out),
                {"name": "a", "name_hex": "61", "holders": [], "waiters": []}, "show --json")
    check_equal(world.expect(0, "ls").out, "", "ls of nothing")
    check_equal(json.loads(world.expect(0, "ls", "--json").out), [], "ls --json of nothing")


@case
def show_has_the_holder_and_the_queue_in_order(world):
    holder = world.hold("a", "--purpose", "first of all").ready()
    waiters = []
    for i in range(3):
        waiters.append(world.start("run", *(["-s"] if i == 2 else []), "a", "--", "true"))
        world.wait_waiting("a", waiters[-1].pid)
    shown = world.show("a")
    host = os.uname().nodename
    check_equal([e["pid"] for e in shown["holders"]], [holder.pid], "holders")
    check_equal([e["pid"] for e in shown["waiters"]], [w.pid for w in waiters], "waiters")
    check_equal([e["position"] for e in shown["waiters"]], [1, 2, 3], "positions")
    check_equal([e["mode"] for e in shown["waiters"]], ["exclusive", "exclusive", "shared"],
                "modes")
    for entry in shown["holders"] + shown["waiters"]:
        check_equal(set(entry), KEYS, "keys")
        check_equal(entry["host"], host, "host")
    one = shown["holders"][0]
    check(one["fence"].isdigit() and one["age_ms"] >= 0 and not one["waiting"], f"holder: {one}")
    lines = world.expect(0, "show", "a").out.splitlines()
    check_equal(lines[0].split(), ["PLACE", "MODE", "WHO", "FENCE", "AGE", "REMAINING", "PURPOSE"],
                "headings")
    check_equal([line.split()[0] for line in lines[1:]], ["holds", "1", "2", "3"], "places")
    check(f"{host}:{holder.pid}" in lines[1] and lines[1].endswith("first of all"), lines[1])
    check(one["fence"] in lines[1], "the fence is there for break")
    starts = {line.index(f"{host}:") for line in lines[1:]}
    check_equal(starts, {lines[0].index("WHO")}, "columns stand below each other")
    holder.end()
    for waiter in waiters:
        world.end(waiter)


@case
def ls_has_a_row_for_each_holder(world):
    one = world.hold("jobs/1", "--purpose", "work").ready()
    two = [world.hold("jobs/2", "-s").ready() for _ in range(2)]
    other = world.hold("other").ready()
    waiter = world.start("run", "jobs/1", "--", "true")
    world.wait_waiting("jobs/1", waiter.pid)
    lines = world.expect(0, "ls").out.splitlines()
    check_equal(lines[0].split(), ["NAME", "MODE", "HOLDER", "PURPOSE", "FENCE", "AGE", "REMAINING",
                                   "WAITING"], "headings")
    rows = [line.split() for line in lines[1:]]
    check_equal(sorted(row[0] for row in rows), ["jobs/1", "jobs/2", "jobs/2", "other"], "names")
    first = next(row for row in rows if row[0] == "jobs/1")
    check_equal((first[1], first[3], first[-1]), ("exclusive", "work", "1"), "the row of jobs/1")
    check(first[2].endswith(f":{one.pid}"), "the holder of jobs/1")
    lines = world.expect(0, "ls", "jobs/*").out.splitlines()
    check_equal(len(lines), 4, "rows of jobs/*")
    entries = json.loads(world.expect(0, "ls", "--json", "jobs/?").out)
    check_equal(len(entries), 4, "entries of jobs/?, waiters too")
    for entry in entries:
        check_equal(set(entry), KEYS, "keys")
    check_equal(json.loads(world.expect(0, "ls", "--json", "jobs").out), [], "ls of no such name")
    one.end()
    world.end(waiter)
    for holder in two + [other]:
        holder.end()


@case
def break_needs_the_fence_of_the_turn_that_is_meant(world):
    holder = world.hold("a", "--grace", "100ms").ready()
    fence = int(world.fence_of("a"))
    result = world.expect(64, "break", "a")
    check("holdfast show" in result.err, f"it says how to find the fence: {result}")
    for wrong in (fence - 1, fence + 1, fence + 256, 2**64 - 1):
        if wrong > 0:
            world.expect(1, "break", "a", "--fence", str(wrong))
    world.expect(1, "break", "b", "--fence", str(fence))
    check_equal(world.holders("a"), [holder.pid], "who holds")
    result = world.expect(0, "break", "--fence", str(fence), "a")
    check(str(fence) in result.err, f"it says what it did: {result}")
    check_equal(world.end(holder.process).status, 79, "status of the holder")
    world.expect(1, "break", "-q", "a", "--fence", str(fence))
    world.check_free("a")


@case
def terminals_are_safe_from_names_and_purposes(world):
    evil = "a\x1b[2J\x07\r\nb\x9b\u202ec\\d"
    holder = world.hold(evil, "--purpose", "\x1b]0;title\x07\u200b").ready()
    outputs = [world.expect(0, "ls").out, world.expect(0, "show", evil).out,
               world.expect(75, "run", "-n", evil, "--", "true").err,
               world.expect(1, "break", evil, "--fence", "7").err,
               world.expect(127, "run", "b", "--", "\x1b[31m").err]
    for output in outputs:
        harmful = [c for c in output if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160
                                                       or c in "\u202e\u200b")]
        check(not harmful, f"nothing harmful in {output!r}")
    check(r"a\x1b[2J\x07\r\nb\u{9b}\u{202e}c\\d" in outputs[0], f"it is visible: {outputs[0]}")
    entry = json.loads(world.expect(0, "ls", "--json").out)[0]
    check_equal(entry["name"], evil, "the name in JSON")
    check_equal(bytes.fromhex(entry["name_hex"]), evil.encode(), "the name in hex")
    holder.end()
    holder = world.hold(b"a\xffb").ready()
    entry = json.loads(world.expect(0, "ls", "--json").out)[0]
    check_equal((entry["name"], entry["name_hex"]), ("a\\xffb", "61ff62"), "what is not UTF-8")
    check(r"a\xffb" in world.expect(0, "ls").out, "the name in the table")
    environment = {**world.environment, "LC_ALL": "C"}
    holder.end()
    holder = world.hold("\u00e9").ready()
    check("\u00e9" in world.expect(0, "ls").out, "UTF-8 where it is spoken")
    check(r"\xc3\xa9" in world.expect(0, "ls", env=environment).out, "and escapes where not")
    holder.end()


@case
def a_url_from_the_option_goes_before_the_environment(world):
    url = f"file:{world.path('elsewhere')}"
    process = world.start("run", "-u", url, "a", "--", "cat", stdin=subprocess.PIPE)
    wait_until(lambda: world.holdfast("show", "-q", "-u", url, "a").status == 0, "held elsewhere")
    world.check_free("a")
    world.end(process)
    result = world.expect(0, "run", "--url=" + url, "a", "--", "sh", "-c", "echo $HOLDFAST_URL")
    check_equal(result.out, url + "\n", "HOLDFAST_URL")


@case
def options_may_stand_before_and_behind_the_name(world):
    holder = world.hold("a").ready()
    world.expect(9, "run", "a", "-n", "-E9", "--", "true")
    world.expect(9, "run", "-nE", "9", "a", "--", "true")
    world.expect(9, "run", "--nonblock", "--conflict-exit-code=9", "a", "--", "true")
    holder.end()
    result = world.expect(0, "run", "a", "--", "echo", "-n", "--", "-x")
    check_equal(result.out, "-- -x", "the command's own options")
    world.expect(0, "run", "--", "-n", "--", "true")
    world.expect(64, "run", "--", "-n", "true")


@case
def the_completion_knows_the_verbs_and_their_options(world):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.path.join(root, "completion", "holdfast")
    holder = world.hold("some-lock").ready()

    def complete(*words):
        # As bash does: words are cut at colons and equals signs, the line is as it was typed.
        pieces = [piece for word in words for piece in re.findall("[:=]|[^:=]+", word) or [""]]
        script = 'source "$0"; COMP_LINE=$1; COMP_POINT=${#1}; shift; COMP_WORDS=("$@"); ' \
                 'COMP_CWORD=$(($# - 1)); _holdfast; printf "%s\\n" "${COMPREPLY[@]}"'
        search = os.path.dirname(world.command) + ":" + os.environ["PATH"]
        done = subprocess.run(["bash", "-c", script, path, " ".join(words), *pieces],
                              cwd=world.folder, env={**world.environment, "PATH": search},
                              capture_output=True, text=True, check=True, timeout=60)
        check_equal(done.stderr, "", f"complaints of {words}")
        return done.stdout.split()

    check_equal(sorted(complete("holdfast", "")), sorted(VERBS), "verbs")
    check_equal(complete("holdfast", "sh"), ["show"], "verbs that begin so")
    for verb in ("run", "ls", "show", "break", "engines", "bench"):
        page = world.expect(0, "help", verb).out
        wanted = set(re.findall(r"(--[a-z-]+)", "\n".join(
            line for line in page.splitlines() if line.startswith("  -"))))
        found = set(complete("holdfast", verb, "-"))
        check(wanted <= found, f"{verb}: {wanted - found} missing")
    for verb in ("show", "break", "run"):
        check_equal(complete("holdfast", verb, "some"), ["some-lock"], f"names for {verb}")
    check("fence" in complete("holdfast", "run", "--require", "f"), "promises")
    check_equal(complete("holdfast", "break", "some-lock", "--fence", ""),
                [world.fence_of("some-lock")], "fences")
    url = world.environment["HOLDFAST_URL"]
    for option in (["-u", url], ["--url", f"'{url}'"], [f"--url={url}"]):
        check_equal(complete("holdfast", "show", *option, "some"), ["some-lock"],
                    f"names behind {option}")
    elsewhere = f"file:{world.folder}/elsewhere"
    check_equal(complete("holdfast", "show", "-u", elsewhere, "some"), [], "names elsewhere")
    check_equal(complete("holdfast", "break", "--url", url, "some-lock", "--fence", ""),
                [world.fence_of("some-lock")], "fences behind a URL")
    check("true" in complete("holdfast", "run", "a", "--", "tru"), "commands")
    holder.end()
