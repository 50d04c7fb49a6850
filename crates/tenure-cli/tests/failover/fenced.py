"""A program that records when it lives, as recorder.py does, and writes through the fence all the time.

Whatever the database has acknowledged is noted outside of it, so that what a failover loses can be told.
"""
import os
import signal
import time

import psycopg2

SCOPE, NODE, EPOCH = (os.environ[f"TENURE_{name}"] for name in ("SCOPE", "NODE_ID", "EPOCH"))
NAME = f"{EPOCH}-{os.environ['NAME']}"


def record():
    beats = os.open(f"beats-{NAME}-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        os.write(beats, b"%d\n" % time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        time.sleep(0.004)


def write():
    acknowledged = os.open(f"acks-{NAME}-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    number = 0
    while True:
        try:
            session = psycopg2.connect(os.environ["DATA"], connect_timeout=2)
            while True:
                number += 1
                act = f"{NAME}-{os.getpid()}-{number}"
                with session, session.cursor() as cursor:
                    cursor.execute("SELECT tenure_fence(%s, %s, %s)", (SCOPE, NODE, int(EPOCH)))
                    cursor.execute(
                        "INSERT INTO acts (scope, epoch, act) VALUES (%s, %s, %s)", (SCOPE, int(EPOCH), act)
                    )
                os.write(acknowledged, f"{act}\n".encode())
                time.sleep(0.01)
        except psycopg2.Error:
            time.sleep(0.05)


if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    record()
if os.fork() == 0:
    write()
record()
