#!/usr/bin/env python3
"""Makes a C string of a database's schema: embed.py OUTPUT HEADER NAME FILE..."""

import pathlib
import sys


def write_string(out, declaration, text):
    """As numbers, for a compiler need not take a string of over 4095 bytes."""
    out.write(f"{declaration}[] = {{\n")
    codes = [str(byte) for byte in text.encode("ascii")] + ["0"]
    for at in range(0, len(codes), 24):
        out.write("    " + ", ".join(codes[at:at + 24]) + ",\n")
    out.write("};\n")


def main():
    output, header, name, *paths = sys.argv[1:]
    text = "".join(pathlib.Path(path).read_text(encoding="ascii") for path in paths)
    made_from = " and ".join(pathlib.Path(path).name for path in paths)
    with open(output, "w", encoding="ascii") as out:
        out.write(f"/* Made from {made_from} by embed.py: do not edit. */\n")
        out.write(f'#include "{header}"\n\n')
        write_string(out, f"const char {name}", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
