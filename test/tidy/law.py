"""The laws of the house that can be read off the text, each with samples that it must refuse.

A law is a function from a list of files to complaints, `path:line: what is wrong`. @law registers
it with its name, with `bad` samples (each must give at least one complaint) and with `good` ones
(none may). A law that lets a bad sample pass fails, however clean the repository is.
"""

import re

import source
from source import File

LAWS = []


def law(name, bad, good=()):
    def register(function):
        LAWS.append((name, function, [[File(*sample)] for sample in bad],
                     [[File(*sample)] for sample in good]))
        return function

    return register


def find(pattern, file, text, message):
    for match in re.finditer(pattern, text, re.MULTILINE):
        yield f"{file.path}:{source.line_of(text, match.start())}: {message % match.group()}"


# Who may include what, from the bottom up. A path ends in a slash where the whole folder is meant,
# without its subfolders. Everyone may include the C library, and the public header.
MAY_INCLUDE = {
    "src/base": ("base/",),
    "src/engine": ("base/", "engine/"),
    "src/engine/*": ("base/", "engine/", "engine/*/"),  # the star: its own folder
    "src/pattern": ("base/", "engine/engine.h", "pattern/"),
    "src/core": ("base/", "engine/", "pattern/", "core/"),
    "src/api": ("base/", "engine/", "pattern/", "core/", "api/"),
    "cli": ("cli/", "bench/bench.h"),
    "bench": ("bench/",),
    "bench/wire_etcd.c": ("bench/", "base/", "engine/etcd/"),  # measures the engine's own wire
    "examples": (),
    "include/holdfast": (),
}
PUBLIC = ("holdfast/holdfast.h", "holdfast.h")


def layer_of(folder):
    if folder in MAY_INCLUDE:
        return MAY_INCLUDE[folder]
    parent, _, own = folder.rpartition("/")
    if parent + "/*" in MAY_INCLUDE:
        return tuple(path.replace("*", own) for path in MAY_INCLUDE[parent + "/*"])
    return None


def may_include(file, path):
    allowed = MAY_INCLUDE.get(file.path) or layer_of(file.folder)
    if path in PUBLIC:
        return True
    if "/" not in path:  # beside the file itself
        path = file.folder.removeprefix("src/") + "/" + path
    folder = path.rpartition("/")[0] + "/"
    return path in allowed or folder in allowed


@law("include law",
     bad=[("src/base/a.c", '#include "engine/engine.h"\n'),
          ("src/engine/redis/a.c", '#include "engine/etcd/b.h"\n'),
          ("src/engine/redis/a.c", '#include "core/driver.h"\n'),
          ("src/pattern/a.c", '#include "core/lock.h"\n'),
          ("src/pattern/a.c", '#include "engine/registry.h"\n'),
          ("src/core/a.c", '#include "api/loop.h"\n'),
          ("src/core/a.c", '#include "engine/embedded/table.h"\n'),
          ("cli/a.c", '#include "base/text.h"\n'),
          ("cli/a.c", '#include "../src/base/text.h"\n'),
          ("bench/a.c", '#include "base/text.h"\n'),
          ("bench/wire_etcd.c", '#include "engine/redis/b.h"\n'),
          ("examples/a.c", '#  include <base/text.h>\n'),
          ("src/stray/a.c", '#include <stdio.h>\n')],
     good=[("src/base/a.c", '#include <stdio.h>\n#include "base/b.h"\n'),
           ("src/engine/redis/a.c", '#include "engine/redis/b.h"\n#include "base/text.h"\n'),
           ("src/api/a.c", '#include "core/lock.h"\n#include "holdfast/holdfast.h"\n'),
           ("cli/a.c", '#include "cli/run.h"\n#include <holdfast/holdfast.h>\n'),
           ("test/unit/a.c", '#include "core/lock.h"\n')])
def include_law(files):
    for file in files:
        if not file.is_c or not file.under("src", "cli", "bench", "examples", "include"):
            continue
        if layer_of(file.folder) is None:
            yield f"{file.path}:1: the folder is in no layer of MAY_INCLUDE"
            continue
        code = source.blank(file.text, strings=False)
        for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)', code, re.M):
            ours = match.group(1) == '"' or re.match(
                r"(base|engine|pattern|core|api|cli|bench|holdfast)[./]", match.group(2))
            if ours and not may_include(file, match.group(2)):
                yield (f"{file.path}:{source.line_of(code, match.start())}:"
                       f" {file.folder} may not include {match.group(2)}")


LINES_MAX = 70


@law(f"functions of at most {LINES_MAX} lines",
     bad=[("src/base/a.c", "int f(void)\n{\n" + "    g();\n" * 68 + "}\n"),
          ("test/unit/a.c", "TEST(a, b)\n{\n" + "    g();\n" * 68 + "}\n")],
     good=[("src/base/a.c", "int f(void)\n{\n" + "    g();\n" * 67 + "}\n")])
def function_lines(files):
    for file in files:
        if not file.is_c:
            continue
        for function in source.functions(file.text):
            lines = function.last - function.first + 1
            if lines > LINES_MAX:
                yield f"{file.path}:{function.first}: {function.name} has {lines} lines"


COLUMNS_MAX = 100


@law(f"lines of at most {COLUMNS_MAX} columns",
     bad=[("src/base/a.c", "x" * 101 + "\n"), ("test/run", "x" * 101 + "\n")],
     good=[("src/base/a.c", "é" * 100 + "\n"), ("README.md", "x" * 200 + "\n")])
def columns(files):
    for file in files:
        if (file.path.endswith((".md", ".patch", ".abi", ".txt", "-lock.json"))
                or file.path == "LICENSE"
                or "/corpus/" in file.path):
            continue
        text = re.sub(r"/\* clang-format off \*/.*?/\* clang-format on \*/",  # tables
                      lambda match: "\n" * match.group().count("\n"), file.text, flags=re.DOTALL)
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > COLUMNS_MAX:
                yield f"{file.path}:{number}: {len(line)} columns"


@law("no blanks at the end of a line, no tabs, a newline at the end",
     bad=[("src/base/a.c", "int x; \n"), ("src/base/a.c", "\tint x;\n"),
          ("README.md", "no end"), ("README.md", "x\r\n")],
     good=[("Makefile", "all:\n\tninja\n"), ("src/base/a.c", "int x;\n"),
           ("bench/a.go", "func main() {\n\tmust(nil)\n}\n")])
def blanks(files):
    for file in files:
        if file.path.endswith((".patch", ".abi")) or "/corpus/" in file.path:
            continue
        yield from find(r"[ \t\r]+$", file, file.text, "a blank at the end%.0s")
        if not file.path.endswith(("Makefile", ".go")):  # gofmt wants them
            yield from find(r"^.*?\t.*$", file, file.text, "a tab%.0s")
        if file.text and not file.text.endswith("\n"):
            yield f"{file.path}: no newline at the end"


BANNED = ("strcpy strcat strncpy strncat sprintf vsprintf strtok atoi atol atoll atof gets alloca"
          " tmpnam tempnam mktemp rand srand ctime asctime localtime gmtime setjmp longjmp").split()
BANNED_IN_PRODUCT = "system popen signal".split()


@law("no banned functions",
     bad=[("src/base/a.c", f"int f(void)\n{{\n    return {name}(x);\n}}\n") for name in BANNED]
     + [("cli/a.c", f"    {name} (x);\n") for name in BANNED_IN_PRODUCT],
     good=[("src/base/a.c", "/* sprintf(x) */ hf__snprintf(x); vsnprintf(y); my_strcpy(z);\n"),
           ("test/a.c", 'system("x"); puts("atoi(x)");\n')])
def banned(files):
    for file in files:
        if not file.is_c:
            continue
        names = BANNED + ([] if file.under("test") else BANNED_IN_PRODUCT)
        yield from find(r"(?<![\w.>])(?:%s)\s*(?=\()" % "|".join(names), file,
                        source.blank(file.text), "%s is banned")


@law("comments are /* */",
     bad=[("src/base/a.c", "int x; // no\n")],
     good=[("src/base/a.c", '/* http://x */ char *y = "http://x";\n')])
def comment_form(files):
    for file in files:
        if file.is_c:
            for line, comment in source.comments(file.text):
                if comment.startswith("//"):
                    yield f"{file.path}:{line}: a // comment"


@law("no commented-out code, no marks of unfinished work",
     bad=[("src/base/a.c", "/* return f(x); */\n"), ("src/base/a.c", "/* TODO: mend */\n"),
          ("src/base/a.c", "#if 0\nint x;\n#endif\n"), ("test/run", "# FIXME later\n")],
     good=[("src/base/a.c", "/* It returns what f(x) answered; see there. */\n")])
def unfinished(files):
    for file in files:
        if file.path.startswith("test/tidy/") or file.path.endswith((".md", ".abi")):
            continue
        yield from find(r"\b(TODO|FIXME|XXX|HACK)\b", file, file.text, "%s")
        if not file.is_c:
            continue
        yield from find(r"^\s*#\s*if\s+0\b", file, file.text, "%s")
        for line, comment in source.comments(file.text):
            if re.fullmatch(r"/\*\s*(return\b|if \(|for \(|while \(|[\w>.-]+\(.*\)|[\w>.-]+ = ).*;"
                            r"\s*\*/", comment):
                yield f"{file.path}:{line}: code in a comment"


SWITCH_SAMPLE = """int f(int kind)
{{
    switch (kind) {{
    case {first}:
        return 1;
    default:
        return 2;
    }}
}}
"""


# A switch on a character, on errno or on a status (which is an int) is not meant.
@law("no default in a switch on an enum",
     bad=[("src/base/a.c", SWITCH_SAMPLE.format(first="HF__REPLY_GRANTED")),
          ("cli/a.c", SWITCH_SAMPLE.format(first="VERB_RUN"))],
     good=[("src/base/a.c", SWITCH_SAMPLE.format(first="'x'")),
           ("src/base/a.c", SWITCH_SAMPLE.format(first="EINTR")),
           ("cli/a.c", SWITCH_SAMPLE.format(first="HF_EBUSY"))])
def switch_default(files):
    for file in files:
        if not file.is_c:
            continue
        code = source.blank(file.text, strings=False)
        for match in re.finditer(r"^( *)switch \(.*\) \{\n((?:\1.*\n|\n)*?)\1\}", code, re.M):
            indent, body = match.group(1), match.group(2)
            own = [line for line in body.split("\n")
                   if re.match(indent + r"(case|default)\b", line)]
            named = r" *(case [A-Z][A-Z0-9]*_\w*[A-Z_]\w*:|default:)"
            status = any(re.match(r" *case HF_(E[A-Z]+|OK):", line) for line in own)
            if (len(own) > 1 and all(re.match(named, line) for line in own) and not status
                    and any(line.lstrip().startswith("default") for line in own)):
                line = source.line_of(code, match.start())
                yield f"{file.path}:{line}: default beside enum values"


@law("endless loops only in api/loop.c and cli/",
     bad=[("src/core/a.c", "    for (;;) {\n"), ("src/api/a.c", "    while (true)\n"),
          ("src/base/a.c", "    while (1) {\n")],
     good=[("src/api/loop.c", "    for (;;) {\n"), ("cli/a.c", "    for (;;)\n"),
           ("src/base/a.c", "    for (size_t i = 0;; i++)\n")])
def endless(files):
    for file in files:
        if file.is_c and file.under("src", "bench", "examples") and file.path != "src/api/loop.c":
            yield from find(r"\bfor \(;;\)|\bwhile \((?:true|1)\)", file, source.blank(file.text),
                            "%s")


@law("every C file opens with what it answers",
     bad=[("src/base/a.c", "#include <stdio.h>\n"), ("src/base/a.c", "/* b.c: what? */\n"),
          ("src/base/a.h", "/* a helper */\n")],
     good=[("src/base/a.c", "/* a.c: what is it? */\n")])
def opening(files):
    for file in files:
        name = re.escape(file.path.rpartition("/")[2])
        if file.is_c and not re.match(rf"/\* {name}(?: \([^)]*\))?: \S", file.text):
            yield f"{file.path}:1: does not open with `/* {file.path.rpartition('/')[2]}: ...`"


@law("no #if inside a function",
     bad=[("src/base/a.c", "int f(void)\n{\n#ifdef X\n    g();\n#endif\n}\n")],
     good=[("src/base/a.c", "#ifdef X\nint f(void)\n{\n    g();\n}\n#endif\n")])
def conditional(files):
    for file in files:
        if not file.is_c or file.under("test"):
            continue
        for function in source.functions(file.text):
            if re.search(r"^\s*#\s*(if|ifdef|ifndef|else|elif)\b", function.body, re.MULTILINE):
                yield f"{file.path}:{function.first}: #if inside {function.name}"


# Where the law does not hold, and why.
TIME_EXCEPTIONS = {
    "src/engine/embedded/epoch.c": "time",  # the year, for an epoch; no deadline depends on it
    "src/engine/embedded/directory.c": "nanosleep",  # while another process makes the table
}


@law("the layers below api/ read no clock and do not sleep",
     bad=[("src/core/a.c", "    now = hf__clock_now_ns();\n"),
          ("src/pattern/a.c", "    clock_gettime(CLOCK_BOOTTIME, &now);\n"),
          ("src/engine/redis/a.c", "    usleep(10);\n")],
     good=[("src/api/a.c", "    now = hf__clock_now_ns();\n"),
           ("src/core/a.c", "    left = hf__clock_left_ms(now_ns, then_ns);\n")])
def clockless(files):
    for file in files:
        if not file.is_c or not file.under("src/core", "src/pattern", "src/engine"):
            continue
        names = set("hf__clock_now_ns clock_gettime gettimeofday time usleep sleep nanosleep"
                    " clock_nanosleep".split()) - {TIME_EXCEPTIONS.get(file.path)}
        yield from find(r"\b(?:%s)\s*(?=\()" % "|".join(sorted(names)), file,
                        source.blank(file.text), "%s: time is handed in from above")


@law("asserts stay on",
     bad=[("src/base/a.c", "#define NDEBUG\n"), ("meson.build", "  'b_ndebug=true'\n")],
     good=[("meson.build", "  'b_ndebug=false'\n")])
def asserts(files):
    for file in files:
        if file.is_c or file.path.endswith(("meson.build", "Makefile")) or file.path == "test/run":
            yield from find(r"\bNDEBUG\b|b_ndebug=(?:true|if-release)", file, file.text, "%s")


@law("typedef only for the opaque handles of the public header",
     bad=[("src/base/a.h", "typedef struct a a;\n"), ("cli/a.c", "typedef int (*f)(void);\n")],
     good=[("include/holdfast/holdfast.h", "typedef struct hf_client hf_client;\n"),
           ("src/base/a.c", "__extension__ typedef unsigned __int128 uint128;\n")])
def typedefs(files):
    for file in files:
        if file.is_c and file.under("src", "cli", "include"):
            code = source.blank(file.text)
            for match in re.finditer(r"(?<!__extension__ )\btypedef\b[^;]*;?", code):
                opaque = re.fullmatch(r"typedef struct (hf_\w+) \1;", match.group())
                if not (file.under("include") and opaque):
                    line = source.line_of(code, match.start())
                    yield f"{file.path}:{line}: {match.group()}"


# A machine's own places, and hosts that packages are fetched from: neither belongs in a repository.
PLACES = (r"(?<![\w.$}])/(?:work|root|home|Users)/\w|\b(?:deb|security|snapshot|ftp)\.debian\.org|"
          r"\bregistry\.npmjs|\bpypi\.org|\b(?:docker|ghcr|quay)\.io\b|\bcloudfront\.net")


@law("no places of one machine, no package hosts",
     bad=[("test/a.py", "x = '/ro" + "ot/x'\n"), ("README.md", "http://deb." + "debian.org/x\n"),
          ("src/base/a.c", "/* /wo" + "rk/main */\n")],
     good=[("README.md", "/var/lib/holdfast $HOME/.local/state\n")])
def places(files):
    for file in files:
        if file.path != "test/tidy/law.py":
            yield from find(PLACES, file, file.text, "%s")


@law("a header guard is named after its path",
     bad=[("src/base/a.h", "/* a.h: x */\n#ifndef WRONG_H\n#define WRONG_H\n#endif\n"),
          ("src/base/a.h", "/* a.h: x */\n#pragma once\n")],
     good=[("src/base/a.h", "/* a.h: x */\n#ifndef HF_BASE_A_H\n#define HF_BASE_A_H\n#endif\n")])
def guards(files):
    for file in files:
        if file.under("src") and file.path.endswith(".h"):
            name = re.sub(r"\W", "_", file.path.removeprefix("src/")).upper()
            guard = rf"HF_(?:{name}|{name.removeprefix('ENGINE_')})"
            if not re.search(rf"^#ifndef ({guard})\n#define \1\n", file.text, re.MULTILINE):
                yield f"{file.path}:1: the guard is not HF_{name}"
