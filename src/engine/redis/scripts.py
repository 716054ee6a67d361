#!/usr/bin/env python3
"""Makes C strings of Lua scripts: scripts.py OUTPUT NAME=FILE[+FILE...]...

Comments and indentation stay behind: the server compiles a script once, but hashes and stores it as
it was sent.
"""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from embed import write_string  # noqa: E402


def lines_of(path):
    for line in pathlib.Path(path).read_text(encoding="ascii").splitlines():
        line = line.strip()
        if line.startswith("--") or not line:
            continue
        yield line.split(" -- ")[0].rstrip() if "'" not in line.partition(" -- ")[2] else line


def main():
    output, *wanted = sys.argv[1:]
    with open(output, "w", encoding="ascii") as out:
        out.write("/* Made from lua/ by scripts.py: do not edit. */\n")
        for item in wanted:
            name, _, files = item.partition("=")
            script = "".join(f"{line}\n" for path in files.split("+") for line in lines_of(path))
            write_string(out, f"static const char {name}", script)
    return 0


if __name__ == "__main__":
    sys.exit(main())
