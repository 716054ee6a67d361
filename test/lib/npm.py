"""npm's redlock with ioredis, as test/interop pins them."""

import os
import shutil
import subprocess

PINNED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "interop")
LIMIT_S = 300


def install(directory):
    """Into this folder; returns that of the modules."""
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(os.path.join(PINNED, name), directory)
    done = subprocess.run(["npm", "ci", "--ignore-scripts", "--cache", f"{directory}/cache"],
                          cwd=directory, capture_output=True, text=True, timeout=LIMIT_S,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"npm ci: {done.stderr}")
    return f"{directory}/node_modules"
