"""What is in the repository, and where does a C file have comments, strings and functions?

The C here is clang-format's: a function's opening brace stands alone in the first column and so
does its closing one. That is all the parsing that the checks need.
"""

import dataclasses
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
MADE = (".pb-c.c", ".pb-c.h")  # by protoc-c: tools.Made checks that it is what would be made now


@dataclasses.dataclass(frozen=True)
class File:
    path: str  # from the root of the repository
    text: str

    @property
    def is_c(self):
        return self.path.endswith((".c", ".h"))

    @property
    def folder(self):
        return self.path.rpartition("/")[0]

    def under(self, *folders):
        return any(self.path.startswith(folder + "/") for folder in folders)


def tracked():
    """Every text file that git knows or would take, and that somebody wrote."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], check=True, capture_output=True, text=True)
    files = []
    for path in sorted(set(filter(None, listed.stdout.split("\0")))):
        whole = ROOT / path
        if not whole.is_file() or whole.is_symlink() or path.endswith(MADE):
            continue
        data = whole.read_bytes()
        if b"\0" in data[:4096]:
            continue  # a corpus, not a text
        try:
            files.append(File(path, data.decode()))
        except UnicodeDecodeError:
            continue
    return files


TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


def blank(text, comments=True, strings=True):
    """The same text with comments and strings replaced by blanks; lines and columns stay."""

    def replace(match):
        token = match.group()
        is_comment = token.startswith(("/*", "//"))
        if (is_comment and not comments) or (not is_comment and not strings):
            return token
        return re.sub(r"[^\n]", " ", token)

    return TOKEN.sub(replace, text)


def comments(text):
    """(line, comment) of every comment."""
    for match in TOKEN.finditer(text):
        if match.group().startswith(("/*", "//")):
            yield line_of(text, match.start()), match.group()


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    first: int  # the line of its signature's start, counted from 1
    last: int  # of its closing brace
    body: str  # without comments and strings


def functions(text):
    lines = blank(text).split("\n")
    start = None
    for number, line in enumerate(lines):
        if line.rstrip() == "{" and start is None:
            start = number
        elif line.startswith("}") and start is not None:
            first = signature_start(lines, start)
            name = re.search(r"(\w+)\s*\(", " ".join(lines[first:start + 1]))
            body = "\n".join(lines[start:number + 1])
            yield Function(name.group(1) if name else "?", first + 1, number + 1, body)
            start = None


def signature_start(lines, brace):
    first = brace
    while first > 0 and re.search(r"\S", lines[first - 1]):
        if re.search(r"[;}]\s*$|^#", lines[first - 1]):
            break
        first -= 1
    return first
