"""The checks that take a compiler, an analyser or what was built.

Each is a class: `complaints()` looks at the repository, `proof()` gives the same machinery
something bad and must come back with complaints. A program that a check needs and that is not
there makes the check fail, not vanish: packages/check.txt installs them all.
"""

import concurrent.futures
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

import source
from source import ROOT

HERE = pathlib.Path(__file__).resolve().parent
HEADER = ROOT / "include/holdfast/holdfast.h"
BASELINE = HERE / "abi" / f"libholdfast.so.0.{platform.machine()}.abi"
CONSTANTS = HERE / "abi" / "constants.txt"


def call(command, **more):
    """(exit status, everything that it printed)"""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          errors="replace", **more)
    return done.returncode, done.stdout


def failing(command, **more):
    status, output = call(command, **more)
    return [f"{pathlib.Path(str(command[0])).name}: {output.strip() or f'exit status {status}'}"
            ] if status != 0 else []


def differing(what, left_name, left, right_name, right):
    for item in sorted(set(left) - set(right)):
        yield f"{what} {item} is in {left_name}, but not in {right_name}"
    for item in sorted(set(right) - set(left)):
        yield f"{what} {item} is in {right_name}, but not in {left_name}"


def public_functions(header_text):
    code = source.blank(header_text)
    return re.findall(r"\bHF_API\b[^;(]*?\b(hf_\w+)\s*\(", code)


def map_symbols(map_text):
    body = re.search(r"global:(.*?)local:", source.blank(map_text), re.DOTALL).group(1)
    return re.findall(r"(\w+);", body)


def defined_symbols(path, *options):
    status, output = call(["nm", "--defined-only", "--format=posix", *options, path])
    if status != 0:
        raise RuntimeError(output)
    rows = [line.split() for line in output.splitlines() if len(line.split()) >= 2]
    return [(row[0].partition("@")[0], row[1]) for row in rows]


class Check:
    slow = False  # slow ones are the suite `analysis`

    def __init__(self, build, files, temporary):
        self.build = pathlib.Path(build)
        self.files = files
        self.temporary = pathlib.Path(temporary)

    def sample(self, name, text):
        path = self.temporary / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def c_paths(self, *suffixes):
        return [file.path for file in self.files if file.path.endswith(suffixes)]


class Symbols(Check):
    name = "the library exports the header's functions and nothing else"

    def compare(self, header_text, map_text, exported):
        functions = public_functions(header_text)
        yield from differing("function", "holdfast.h", functions, "src/holdfast.map",
                             map_symbols(map_text))
        yield from differing("symbol", "holdfast.h", functions, "libholdfast.so", exported)

    def complaints(self):
        rows = defined_symbols(self.build / "libholdfast.so", "--dynamic")
        exported = [name for name, kind in rows if kind != "A"]
        return list(self.compare(HEADER.read_text(), (ROOT / "src/holdfast.map").read_text(),
                                 exported))

    def proof(self):
        header = "HF_API int hf_a(int x) HF_NODISCARD;\nHF_API const char *hf_b(void);\n"
        good, more = "X { global: hf_a; hf_b; local: *; };", "X { global: hf_a; local: *; };"
        assert not list(self.compare(header, good, ["hf_a", "hf_b"]))
        return (list(self.compare(header, more, ["hf_a", "hf_b"]))
                and list(self.compare(header, good, ["hf_a"]))
                and list(self.compare(header, good, ["hf_a", "hf_b", "hf__c"])))


class Soname(Check):
    name = "the shared library is libholdfast.so.0"

    def read(self, path):
        status, output = call(["readelf", "--dynamic", "--wide", path])
        found = re.search(r"SONAME.*\[(.*)\]", output)
        return [] if found and found.group(1) == "libholdfast.so.0" else [output]

    def complaints(self):
        return self.read(self.build / "libholdfast.so")

    def proof(self):
        code = self.sample("soname.c", "int x;\n")
        library = self.temporary / "soname.so"
        call(["gcc", "-shared", "-fPIC", "-Wl,-soname,libholdfast.so.1", "-o", library, code])
        return self.read(library)


class Namespace(Check):
    """core/retry.c defines hf__retry_* and only those; what is public is in the header."""

    name = "the file is the namespace of what it shares"

    def judge(self, archive, public):
        status, output = call(["nm", "--defined-only", "--extern-only", "--print-file-name",
                               "--format=posix", archive])
        for line in output.splitlines():
            match = re.match(r".*\[src_(\w+)\.c\.o\]: (\w+) ", line)
            if not match or match.group(2) in public:
                continue
            words = match.group(1).split("_")  # folders and file: core_retry, engine_embedded_word
            stems = ["_".join(words[start:]) for start in range(len(words))]
            stems += words[1:-1]  # an engine's own name, for what it shares as a whole
            if not any(re.match(rf"hf__{stem}(_|$)", match.group(2)) for stem in stems):
                yield f"{match.group(1)}.c defines {match.group(2)}"

    def complaints(self):
        return list(self.judge(self.build / "libholdfast.a",
                               public_functions(HEADER.read_text())))

    def proof(self):
        code = self.sample("src_core_retry.c", "int hf__lock_x(void) { return 1; }\n")
        status, output = call(["gcc", "-c", "-o", self.temporary / "src_core_retry.c.o", code])
        archive = self.temporary / "namespace.a"
        call(["ar", "rc", archive, self.temporary / "src_core_retry.c.o"])
        return list(self.judge(archive, []))


class Globals(Check):
    name = "the library has no variable of its own but the thread's last failure"

    # Thread-local variables (.tbss, .tdata) and what is constant after relocation are not meant.
    ROW = re.compile(r"^[0-9a-f]+ .{7} (\S+)\t([0-9a-f]+)\s+(?:\.hidden )?(\S+)$", re.MULTILINE)
    VARIABLE = re.compile(r"\.data(?!\.rel\.ro)|\.bss|\*COM\*")

    def judge(self, path):
        status, output = call(["objdump", "--syms", path])
        for section, size, name in self.ROW.findall(output):
            if self.VARIABLE.match(section) and int(size, 16) > 0:
                yield f"{name} is a variable in {section}"

    def complaints(self):
        return list(self.judge(self.build / "libholdfast.a"))

    def proof(self):
        code = self.sample("globals.c", "static int count;\nint next(void) { return ++count; }\n"
                           "_Thread_local int mine;\nconst int table[] = { 1 };\n"
                           "static const char *const names[] = { \"a\" };\n"
                           "const char *name(int i) { return names[i]; }\n")
        call(["gcc", "-fPIC", "-c", "-o", self.temporary / "globals.o", code])
        found = list(self.judge(self.temporary / "globals.o"))
        assert len(found) == 1, found
        return found


class CommandSymbols(Check):
    name = "the command uses only the public interface"

    def judge(self, paths):
        for path in paths:
            status, output = call(["nm", "--undefined-only", "--format=posix", path])
            for symbol in re.findall(r"^(hf__\w+) U", output, re.MULTILINE):
                yield f"{path.name} uses {symbol}"

    def complaints(self):
        paths = sorted((self.build / "holdfast.p").glob("*.o"))
        own = {name for path in paths for name, _ in defined_symbols(path)}
        found = [text for text in self.judge(paths) if text.split()[-1] not in own]
        return found if paths else ["there is no command"]

    def proof(self):
        code = self.sample("command.c", "int hf__x(void);\nint main(void) { return hf__x(); }\n")
        call(["gcc", "-c", "-o", self.temporary / "command.o", code])
        return list(self.judge([self.temporary / "command.o"]))


def write_abi(library, headers, out):
    """What the types look like that a user of the headers can see; the others are opaque."""
    status, output = call(["abidw", "--headers-dir", headers, "--drop-private-types",
                           "--exported-interfaces-only", "--no-comp-dir-path",
                           "--no-corpus-path", "--no-show-locs", "--no-elf-needed",
                           "--type-id-style", "hash", "--out-file", out, library])
    if status != 0:
        raise RuntimeError(output)


class Abi(Check):
    """Any change is refused, also an addition: whoever means it runs test/tidy/abi/update."""

    name = "the ABI is the stored one"

    def complaints(self):
        if not BASELINE.exists():
            return [f"there is no {BASELINE.name}: run test/tidy/abi/update"]
        write_abi(self.build / "libholdfast.so", HEADER.parent, self.temporary / "now.abi")
        return failing(["abidiff", BASELINE, self.temporary / "now.abi"])

    def proof(self):
        bodies = {"old": ("int a;", "int x;"), "new": ("long a;", "int x;"),
                  "same": ("int a;", "char y[9];")}
        for name, (public, private) in bodies.items():
            header = self.sample(f"{name}/s.h", f"struct s {{ {public} struct p *p; }};\n"
                                 "long f(struct s *s);\n")
            code = self.sample(f"{name}.c", f'#include "{header}"\nstruct p {{ {private} }};\n'
                               "long f(struct s *s) { return s->a + (long)sizeof(*s->p); }\n")
            library = self.temporary / f"{name}.so"
            call(["gcc", "-g", "-shared", "-fPIC", "-o", library, code])
            write_abi(library, header.parent, self.temporary / f"{name}.abi")
        old = self.temporary / "old.abi"
        assert not failing(["abidiff", old, self.temporary / "same.abi"])
        return failing(["abidiff", old, self.temporary / "new.abi"])


def constants(header_text):
    """`NAME value`, a line each: what is compiled into programs, and debug information lacks."""
    code = source.blank(header_text)
    for name, value in re.findall(r"\b(HF_[A-Z_]+) = (-?\d+(?: << \d+)?)\b", code):
        yield f"{name} {value}\n"
    for name, value in re.findall(r"#define (HF_[A-Z_]+)[ \t]+(\(?-?\d+\)?)[ \t]*$", code,
                                  re.MULTILINE):
        if "VERSION" not in name:
            yield f"{name} {value}\n"


class Constants(Check):
    name = "the header's numbers are the stored ones"

    def judge(self, header_text, stored):
        now = set(constants(header_text))
        return [line.strip() for line in differing("", "holdfast.h", now, CONSTANTS.name, stored)]

    def complaints(self):
        return self.judge(HEADER.read_text(), CONSTANTS.read_text().splitlines(keepends=True))

    def proof(self):
        text = "enum x { HF_A = -1, HF_B = 1 << 2 };\n#define HF_C 3\n"
        stored = ["HF_A -1\n", "HF_B 1 << 2\n", "HF_C 3\n"]
        assert not self.judge(text, stored), self.judge(text, stored)
        return self.judge(text.replace("-1", "-2"), stored) and self.judge(text, stored[1:])


class Header(Check):
    name = "the header compiles alone as C99 and as C++17"

    WARNINGS = ("-Wall -Wextra -Wpedantic -Wconversion -Wundef -Wcast-qual"
                " -Werror -fsyntax-only").split()

    def compile(self, header):
        found = []
        for compiler, language, extra in (
                ("gcc", "c", ["-std=c99", "-Wstrict-prototypes", "-Wshadow"]),
                ("clang", "c", ["-std=c99", "-Wstrict-prototypes", "-Wshadow"]),
                ("g++", "c++", ["-std=c++17", "-Wold-style-cast"]),
                ("clang++", "c++", ["-std=c++17", "-Wold-style-cast"])):
            code = self.sample(f"header.{language}", f'#include "{header}"\n#include "{header}"\n')
            found += failing([compiler, "-x", language, *extra, *self.WARNINGS, code])
        return found

    def complaints(self):
        return self.compile(HEADER)

    def proof(self):
        return self.compile(self.sample("bad.h", "size_t f(enum class x);\n"))


class Format(Check):
    name = "clang-format"

    def judge(self, paths):
        return failing(["clang-format", f"--style=file:{ROOT / '.clang-format'}", "--dry-run",
                        "-Werror", *paths], cwd=ROOT)

    def complaints(self):
        return self.judge(self.c_paths(".c", ".h"))

    def proof(self):
        return self.judge([self.sample("format.c", "int  f( void ){return 1;}\n")])


class Manual(Check):
    name = "mandoc finds nothing in the manual pages"

    def judge(self, paths):
        return failing(["mandoc", "-T", "lint", "-W", "warning", *paths])

    def complaints(self):
        pages = sorted((ROOT / "man").glob("holdfast.[0-9]"))
        return self.judge(pages) if len(pages) == 3 else [f"{len(pages)} pages, not 3"]

    def proof(self):
        return self.judge([self.sample("bad.3", ".Dd now\n.Dt X\n.Sh NAME\n.Nosuch\n")])


class ManualComplete(Check):
    name = "holdfast(3) names every function, status, event, promise and option"

    def words(self, header_text):
        code = source.blank(header_text)
        words = set(public_functions(header_text))
        words |= set(re.findall(r"\bHF_(?:E|EVENT_|PROMISE_|OWNER_)[A-Z]+\b", code))
        for struct in re.findall(r"struct hf_\w+ \{(.*?)\n\};", code, re.DOTALL):
            for declaration in struct.split(";"):
                pointer = re.search(r"\(\*(\w+)\)", declaration)
                plain = re.findall(r"(\w+)\s*(?=,|$)", declaration.strip())
                words |= {pointer.group(1)} if pointer else set(plain)
        return words

    def judge(self, header_text, page_text):
        known = set(re.findall(r"\w+", page_text))
        return [f"man/holdfast.3 lacks {word}"
                for word in sorted(self.words(header_text) - known)]

    def complaints(self):
        return self.judge(HEADER.read_text(), (ROOT / "man/holdfast.3").read_text())

    def proof(self):
        return self.judge("HF_API int hf_new(void);\n", "hf_open hf_close")


class Version(Check):
    name = "every place tells the same version"

    def judge(self, texts):
        header, meson, changes = texts
        numbers = re.findall(r"#define HF_VERSION_(?:MAJOR|MINOR|PATCH)\s+(\d+)", header)
        project = re.search(r"^\s*version: '([^']+)'", meson, re.MULTILINE)
        newest = re.search(r"^## (\d\S*)", changes, re.MULTILINE)
        told = {"holdfast.h": ".".join(numbers), "meson.build": project and project.group(1),
                "CHANGELOG.md": newest and newest.group(1)}
        return [] if len(set(told.values())) == 1 else [str(told)]

    def complaints(self):
        return self.judge([(ROOT / name).read_text() for name in
                           ("include/holdfast/holdfast.h", "meson.build", "CHANGELOG.md")])

    def proof(self):
        header = "".join(f"#define HF_VERSION_{part} {n}\n"
                         for part, n in (("MAJOR", 1), ("MINOR", 2), ("PATCH", 3)))
        assert not self.judge([header, "  version: '1.2.3'", "## 1.2.3"])
        return self.judge([header, "  version: '1.2.4'", "## 1.2.3"])


class Scripts(Check):
    name = "shellcheck"

    def judge(self, paths, *options):
        return failing(["shellcheck", *options, *paths], cwd=ROOT)

    def complaints(self):
        paths = [file.path for file in self.files
                 if re.match(r"#!.*\b(ba)?sh\b", file.text) or file.path.endswith(".sh")]
        return self.judge(paths) + self.judge(["completion/holdfast"], "--shell=bash")

    def proof(self):
        return self.judge([self.sample("bad.sh", "#!/bin/bash\nrm $1/*\ncd $x\n")])


class Python(Check):
    name = "the Python files compile"

    def judge(self, files):
        for path, text in files:
            try:
                compile(text, path, "exec")
            except SyntaxError as error:
                yield f"{path}:{error.lineno}: {error.msg}"

    def complaints(self):
        return list(self.judge((file.path, file.text) for file in self.files
                               if file.path.endswith(".py")
                               or file.text.startswith("#!/usr/bin/env python3")))

    def proof(self):
        return list(self.judge([("bad.py", "def f(:\n")]))


class Made(Check):
    name = "what protoc-c made is what it makes of the .proto"

    def judge(self, proto, beside):
        """Makes it again, in a folder of its own, and compares with what lies beside the other."""
        self.sample(f"made/{proto.name}", proto.read_text())
        found = failing(["protoc-c", "--c_out=.", proto.name], cwd=self.temporary / "made")
        for ending in (".pb-c.c", ".pb-c.h") if not found else ():
            made, stored = self.temporary / "made" / proto.stem, beside / proto.stem
            if made.with_suffix(ending).read_bytes() != stored.with_suffix(ending).read_bytes():
                found.append(f"{stored.with_suffix(ending).name} is not what {proto.name} gives:"
                             f" protoc-c --c_out=. {proto.name}")
        return found

    def complaints(self):
        protos = sorted((ROOT / "src").rglob("*.proto"))
        return [text for proto in protos for text in self.judge(proto, proto.parent)
                ] if protos else ["there is no .proto"]

    def proof(self):
        proto = next((ROOT / "src").rglob("*.proto"))
        other = self.sample(proto.name, proto.read_text() + "message Other {\n}\n")
        return self.judge(other, proto.parent)


class Executable(Check):
    name = "what has a #! line can be executed"

    def judge(self, paths):
        return [f"{path} has a #! line, but may not be executed" for path in paths
                if not os.access(ROOT / path, os.X_OK)]

    def complaints(self):
        return self.judge(file.path for file in self.files if file.text.startswith("#!"))

    def proof(self):
        return self.judge([self.sample("bad-script", "#!/bin/sh\n")])


class Install(Check):
    name = "make install puts every file in its place, and pkg-config finds it"

    def files_under(self, directory):
        multiarch = call(["gcc", "-print-multiarch"])[1].strip()
        found = []
        for path in sorted(directory.rglob("*")):
            if path.is_symlink() or not path.is_dir():
                found.append(str(path.relative_to(directory)).replace(f"/{multiarch}/", "/"))
        return found

    def program(self, root, include):
        """Compiles and runs the smallest program against what was installed."""
        settings = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(root),
                    "PKG_CONFIG_PATH": str(next(root.rglob("libholdfast.pc")).parent)}
        status, flags = call(["pkg-config", "--cflags", "--libs", "libholdfast"], env=settings)
        if status != 0:
            return [flags]
        code = self.sample("installed.c", f"#include <{include}>\n#include <stdio.h>\n"
                           "int main(void)\n{\n    return puts(hf_version()) < 0;\n}\n")
        program = self.temporary / "installed"
        found = failing(["gcc", "-std=c99", code, *flags.split(), "-o", program])
        libraries = str(next(root.rglob("libholdfast.so")).parent)
        return found or failing([program], env={**os.environ, "LD_LIBRARY_PATH": libraries})

    def complaints(self):
        root = self.temporary / "destination"
        found = failing(["make", "--no-print-directory", "install", f"DESTDIR={root}"], cwd=ROOT)
        if found:
            return found
        wanted = (HERE / "installed.txt").read_text().split()
        found = list(differing("file", "installed.txt", wanted, "the installation",
                               self.files_under(root)))
        for include in ("holdfast.h", "holdfast/holdfast.h"):
            found += self.program(root, include)
        return found

    def proof(self):
        return list(differing("file", "a", ["usr/bin/x"], "b", [])) and list(
            differing("file", "a", [], "b", ["usr/bin/x"]))


class Runner(Check):
    """test/run itself: a suite that goes wrong in any way must not count as passed."""

    name = "test/run notices whatever goes wrong in a suite"

    BAD = {
        "a failure": "echo 1 passed, 1 failed; exit 1",
        "a failure with exit status 0": "echo 1 passed, 1 failed",
        "an exit status without a failure": "echo 1 passed, 0 failed; exit 1",
        "no counts": "echo fine",
        "nothing that ran": "echo 0 passed, 0 failed",
        "death by a signal": "echo 1 passed, 0 failed; kill -KILL $$",
        "a file left behind": "touch $TMPDIR/x; echo 1 passed, 0 failed",
        "a process left behind": "sleep 100 >/dev/null 2>&1 & echo 1 passed, 0 failed",
        "no end": "echo 1 passed, 0 failed; sleep 100",
    }

    def failures(self, script):
        loader = importlib.machinery.SourceFileLoader("runner", str(ROOT / "test/run"))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", loader))
        sys.modules["runner"] = module  # dataclasses look it up
        loader.exec_module(module)
        module.LOGS = self.temporary
        suite = module.Suite("sample", "plain", "fast", (f"bash -c '{script}'",), 1)
        with contextlib.redirect_stdout(io.StringIO()):
            result = module.run_suite(suite, self.build, lambda line: None)
        return result.failed

    def complaints(self):
        return ["a good suite failed"] if self.failures("echo 2 passed, 0 failed") else []

    def proof(self):
        blind = [name for name, script in self.BAD.items() if not self.failures(script)]
        assert not blind, blind
        return True


class ClangBuild(Check):
    name = "clang compiles everything without a warning"
    slow = True

    def complaints(self):
        return failing(["ninja", "-C", ROOT / "build-clang", "--quiet"])

    def proof(self):
        code = self.sample("warn.c", "int f(unsigned x);\nint f(unsigned x)\n{ return x; }\n")
        return failing(["clang", "-Wconversion", "-Werror", "-c", "-o", os.devnull, code])


class ClangTidy(Check):
    name = "clang-tidy"
    slow = True
    FOLDERS = ("src", "cli", "bench", "examples")

    def judge(self, database, paths):
        def one(path):
            return call(["clang-tidy", "--quiet", f"--config-file={ROOT / '.clang-tidy'}", "-p",
                         database, path])

        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            for path, (status, output) in zip(paths, pool.map(one, paths)):
                lines = [line for line in output.splitlines()
                         if not re.match(r"\d+ warnings? (generated|treated)", line)]
                if status != 0:
                    yield f"{path}: " + "\n".join(lines)

    def complaints(self):
        database = ROOT / "build-clang"
        known = json.loads((database / "compile_commands.json").read_text())
        paths = {pathlib.Path(entry["directory"], entry["file"]).resolve() for entry in known}
        mine = sorted(path for path in paths if path.is_relative_to(ROOT)
                      and path.relative_to(ROOT).parts[0] in self.FOLDERS)
        return list(self.judge(database, mine)) if mine else ["no files in the database"]

    def proof(self):
        samples = {
            "loop.c": "int f(int n);\nint f(int n)\n{\n    return n ? f(n - 1) : 0;\n}\n",
            "null.c": "int g(void);\nint g(void)\n{\n    int *p = 0;\n    return *p;\n}\n",
            "deep.c": "int h(int a);\nint h(int a)\n{\n    if (a) {\n        while (a) {\n"
                      "            if (a > 2) {\n                for (; a; a--) {\n"
                      "                    a--;\n                }\n            }\n        }\n"
                      "    }\n    return a;\n}\n",
        }
        paths = [self.sample(f"tidy/{name}", text) for name, text in samples.items()]
        database = [{"directory": str(self.temporary), "command": f"clang -c {path}",
                     "file": str(path)} for path in paths]
        self.sample("tidy/compile_commands.json", json.dumps(database))
        found = list(self.judge(self.temporary / "tidy", paths))
        assert len(found) == len(samples), found
        return found


class Cppcheck(Check):
    name = "cppcheck"
    slow = True

    def judge(self, paths):
        cache = ROOT / "build-check" / "cppcheck"
        cache.mkdir(parents=True, exist_ok=True)
        return failing(["cppcheck", "-q", "-j2", "--std=c11", "--error-exitcode=1", "-Iinclude",
                        "-Isrc", "-I.", "--enable=warning,portability,performance",
                        "--inline-suppr", f"--suppressions-list={HERE / 'cppcheck.txt'}",
                        f"--cppcheck-build-dir={cache}", *paths], cwd=ROOT)

    def complaints(self):
        return self.judge([path for path in self.c_paths(".c")
                           if path.startswith(("src/", "cli/", "bench/", "examples/"))])

    def proof(self):
        return self.judge([self.sample("cpp.c", "int f(void)\n{\n    int a[2];\n    a[2] = 1;\n"
                                       "    return a[2];\n}\n")])


CHECKS = [Symbols, Soname, Namespace, Globals, CommandSymbols, Abi, Constants, Header, Format,
          Manual, ManualComplete, Version, Scripts, Python, Made, Executable, Install, Runner,
          ClangBuild, ClangTidy, Cppcheck]
