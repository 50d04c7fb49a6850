"""A child that records when it lives, from outside the system: a file per process, stamped with BOOTTIME.

It forks, leaves its session and ignores SIGTERM, as badly as a child can behave.
"""
import os
import signal
import time

NAME = f"{os.environ['TENURE_EPOCH']}-{os.environ['NAME']}"


def record():
    beats = os.open(f"beats-{NAME}-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        os.write(beats, b"%d\n" % time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        time.sleep(0.002)


if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
record()
