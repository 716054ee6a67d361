"""Apache Curator, from Debian's jars: programs that use it, compiled and started."""

import subprocess

JARS = ":".join(f"/usr/share/java/{name}.jar" for name in (
    "curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute",
    "guava", "slf4j-api", "slf4j-nop"))
LIMIT_S = 300
NO_TRACES = "-XX:-UsePerfData"  # nothing in the directory for temporary files


def build(source, directory):
    """Compiles the program into this folder."""
    done = subprocess.run(["javac", f"-J{NO_TRACES}", "-d", directory, "-cp", JARS, source],
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"javac {source}: {done.stderr}")


def command(directory, name, *machine):
    """The words that start the class of this name; `machine`: options of the Java machine."""
    return ["java", NO_TRACES, *machine, "-cp", f"{directory}:{JARS}", name]
