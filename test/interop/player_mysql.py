#!/usr/bin/python3
"""Takes GET_LOCK, or a row by SELECT ... FOR UPDATE, again and again beside others:

    player_mysql.py PORT NAME TABLE DIRECTORY SECONDS

An empty TABLE: GET_LOCK. What it does inside is written in player.c. Debian's own python3 is named
above because it sees Debian's python3-pymysql.
"""

import os
import random
import sys
import time

import pymysql

ACCOUNT = {"user": "clerk", "password": "of-the-tests", "database": "locks", "host": "127.0.0.1"}
WAIT_S = 60


def add_one(directory):
    inside, count = f"{directory}/inside", f"{directory}/count"
    os.close(os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with open(count, encoding="ascii") as file:
        number = int(file.read())
    time.sleep(0.0003)
    with open(count, "w", encoding="ascii") as file:
        file.write(f"{number + 1}\n")
    os.unlink(inside)


def lock(connection, cursor, name, table):
    if not table:
        cursor.execute("SELECT get_lock(%s, %s)", (name, WAIT_S))
    else:
        connection.begin()
        cursor.execute(f"SELECT 1 FROM {table} WHERE name = %s FOR UPDATE", (name,))
    if cursor.fetchone() != (1,):
        sys.exit("it was not to be had")


def unlock(connection, cursor, name, table):
    if table:
        connection.commit()
        return
    cursor.execute("SELECT release_lock(%s)", (name,))
    if cursor.fetchone() != (1,):
        sys.exit("the lock was not ours any more")


def main():
    port, name, table, directory, seconds = sys.argv[1:]
    connection = pymysql.connect(port=int(port), autocommit=True, **ACCOUNT)
    cursor = connection.cursor()
    end = time.monotonic() + float(seconds)
    times = 0
    while time.monotonic() < end:
        lock(connection, cursor, name, table)
        add_one(directory)
        unlock(connection, cursor, name, table)
        times += 1
        time.sleep(random.random() * 0.01)
    print(times)


if __name__ == "__main__":
    main()
