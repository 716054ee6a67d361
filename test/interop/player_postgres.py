#!/usr/bin/python3
"""Takes pg_advisory_lock again and again beside others:

    player_postgres.py PORT KEY READERS DIRECTORY SECONDS

KEY is a number, or the name of a lock of ours, whose key the schema tells. Of a hundred turns so
many are shared (READERS). What it does inside is written in player.c. Debian's own python3 is named
above because it sees Debian's python3-psycopg2.
"""

import os
import random
import sys
import time

import psycopg2

ACCOUNT = {"user": "clerk", "password": "of-the-tests", "dbname": "locks", "host": "127.0.0.1"}


def read_count(directory):
    with open(f"{directory}/count", encoding="ascii") as file:
        return int(file.read())


def add_one(directory):
    inside = f"{directory}/inside"
    os.close(os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    number = read_count(directory)
    time.sleep(0.0003)
    with open(f"{directory}/count", "w", encoding="ascii") as file:
        file.write(f"{number + 1}\n")
    os.unlink(inside)


def look(directory):
    number = read_count(directory)
    time.sleep(0.0003)
    if os.path.exists(f"{directory}/inside"):
        sys.exit("reading: a writer is inside")
    if read_count(directory) != number:
        sys.exit("reading: somebody wrote")


def find_key(cursor, key):
    if key.lstrip("-").isdigit():
        return int(key)
    end = time.monotonic() + 60
    while time.monotonic() < end:  # whoever of ours comes first makes the schema
        cursor.execute("SELECT to_regproc('hf_advisory_key_1') IS NOT NULL")
        if cursor.fetchone()[0]:
            cursor.execute("SELECT hf_advisory_key_1(%s)", (key.encode(),))
            return cursor.fetchone()[0]
        time.sleep(0.01)
    sys.exit("nobody made the schema")


def main():
    port, key, readers, directory, seconds = sys.argv[1:]
    connection = psycopg2.connect(port=int(port), **ACCOUNT)
    connection.autocommit = True
    cursor = connection.cursor()
    number = find_key(cursor, key)
    end = time.monotonic() + float(seconds)
    times = 0
    while time.monotonic() < end:
        reads = random.randrange(100) < int(readers)
        way = "_shared" if reads else ""
        cursor.execute(f"SELECT pg_advisory_lock{way}(%s)", (number,))
        if reads:
            look(directory)
        else:
            add_one(directory)
        cursor.execute(f"SELECT pg_advisory_unlock{way}(%s)", (number,))
        if not cursor.fetchone()[0]:
            sys.exit("the lock was not ours any more")
        times += not reads
        time.sleep(random.random() * 0.01)
    print(times)


if __name__ == "__main__":
    main()
