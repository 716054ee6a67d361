"""Programs in Go that use etcd's own client, from Debian's sources: golang-etcd-server-dev."""

import os
import pathlib
import subprocess

LIMIT_S = 600
SOURCES = "/usr/share/gocode"  # where Debian's packages put them


def build(source, build_directory):
    """Compiles the program; what was compiled for it stays in the build directory, for the next
    time. Returns the path of the program."""
    folder = pathlib.Path(build_directory).resolve() / "go"
    folder.mkdir(exist_ok=True)
    source = pathlib.Path(source).resolve()
    program = folder / f"{source.parent.name}-{source.stem}"
    settings = {"GO111MODULE": "off", "GOPATH": SOURCES, "GOCACHE": str(folder / "cache"),
                "GOFLAGS": "", "CGO_ENABLED": "0"}
    done = subprocess.run(["go", "build", "-o", program, source], env={**os.environ, **settings},
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"go build {source}: {done.stderr}")
    return str(program)
