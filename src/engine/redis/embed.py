#!/usr/bin/env python3
"""Makes C strings of Lua scripts: embed.py OUTPUT NAME=FILE[+FILE...]...

Comments and indentation stay behind: the server compiles a script once, but hashes and stores it as
it was sent.
"""

import pathlib
import sys


def lines_of(path):
    for line in pathlib.Path(path).read_text(encoding="ascii").splitlines():
        line = line.strip()
        if line.startswith("--") or not line:
            continue
        yield line.split(" -- ")[0].rstrip() if "'" not in line.partition(" -- ")[2] else line


def main():
    output, *wanted = sys.argv[1:]
    with open(output, "w", encoding="ascii") as out:
        out.write("/* Made from lua/ by embed.py: do not edit. */\n")
        for item in wanted:
            name, _, files = item.partition("=")
            script = "".join(f"{line}\n" for path in files.split("+") for line in lines_of(path))
            # Numbers, for a compiler need not take a string of over 4095 bytes.
            out.write(f"static const char {name}[] = {{\n")
            codes = [str(byte) for byte in script.encode("ascii")] + ["0"]
            for at in range(0, len(codes), 24):
                out.write("    " + ", ".join(codes[at:at + 24]) + ",\n")
            out.write("};\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
