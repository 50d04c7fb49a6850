#!/usr/bin/env python3
"""A worker for the payment outbox in plain Python, to start from.

The database decides everything: this program claims rows, pays, and tells what came of it. Any language with
a Postgres driver can do the same. It needs psycopg2 and a role that is a member of symphony_executor:

    worker.py postgres://payments_worker@db/payments
"""

import os
import select
import signal
import socket
import sys
import time

import psycopg2

LEASE_SECONDS = int(os.environ.get("OUTBOX_LEASE_SECONDS", "30"))
WORKER_ID = os.environ.get("OUTBOX_WORKER_ID", f"{socket.gethostname()}-{os.getpid()}")
BATCH = 10
POLL_SECONDS = 1.0


def pay(idempotency_key, rail_type, payload):
    """Calls your rail. Send the key along: it is the same for every attempt, and a rail must not pay twice for it.

    Returns (state, rail_reference, error_code, error_message); state is DISPATCHED, RETRYABLE or FAILED.
    """
    if "amount" not in payload:
        return "FAILED", None, "INVALID_PAYLOAD", "the payload has no amount"
    return "DISPATCHED", f"paid-{idempotency_key}", None, None


def work(connection):
    """Claims once, and returns how many rows there were."""
    # A claim is good for LEASE_SECONDS from before it was asked for. Time is kept by a clock that goes on while
    # the machine sleeps: a program that was paused must not pay for rows that others may have by now.
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT outbox_id, lease_token, idempotency_key, rail_type, payload, attempt_count"
            " FROM claim_outbox_batch(%s, %s, %s)",
            (BATCH, WORKER_ID, LEASE_SECONDS),
        )
        claims = cursor.fetchall()
    for number, (outbox_id, lease_token, key, rail_type, payload, attempt_count) in enumerate(claims):
        if time.clock_gettime(time.CLOCK_BOOTTIME) - began > LEASE_SECONDS / 2:
            # Not enough time left to begin anything: the rest is given back, and claimed again.
            rest = claims[number:]
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT * FROM release_outbox_leases(%s, %s::uuid[], %s::uuid[])",
                    (WORKER_ID, [claim[0] for claim in rest], [claim[1] for claim in rest]),
                )
            break
        sent = time.monotonic()
        state, reference, code, message = pay(key, rail_type, payload)
        latency_ms = int((time.monotonic() - sent) * 1000)
        retry_delay = min(60, 2**attempt_count)
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT attempt_no, state FROM complete_outbox_attempt("
                    "%s, %s, %s, %s, %s, NULL, %s, %s, %s, %s)",
                    (outbox_id, lease_token, WORKER_ID, state, reference, code, message, latency_ms, retry_delay),
                )
        except psycopg2.Error as error:
            if error.pgcode != "P7002":
                raise
            # LEASE_LOST: it took too long. Whoever has the row now sends it again under the same key.
            print(f"lease lost: {outbox_id} {state} {reference}", file=sys.stderr)
    return len(claims)


def main():
    connection = psycopg2.connect(sys.argv[1])
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("LISTEN symphony_outbox")
    is_stopped = []
    for told in (signal.SIGTERM, signal.SIGINT):
        signal.signal(told, lambda *_: is_stopped.append(True))
    while not is_stopped:
        if work(connection) == BATCH:
            continue
        # Wait for a word of new work; look again now and then in any case.
        select.select([connection], [], [], POLL_SECONDS)
        connection.poll()
        connection.notifies.clear()


if __name__ == "__main__":
    main()
