#!/usr/bin/python3
"""A leader in Python: acts once a second, each act in a transaction that opens with the fence.

    tenure --db "$DATABASE_URL" run --scope report -- docs/examples/report.py
"""
import os
import sys
import time

import psycopg2

REFUSED = "TN001"
TERM = (os.environ["TENURE_SCOPE"], os.environ["TENURE_NODE_ID"], int(os.environ["TENURE_EPOCH"]))


def act(connection):
    with connection, connection.cursor() as cursor:  # commits, or rolls back
        cursor.execute("SELECT tenure_fence(%s, %s, %s)", TERM)
        cursor.execute("INSERT INTO reports (line) VALUES (%s)", [f"from Python, in term {TERM[2]}"])


def main():
    connection = psycopg2.connect(os.environ["DATABASE_URL"])
    while True:
        try:
            act(connection)
        except psycopg2.Error as error:
            if error.pgcode == REFUSED:  # somebody else leads: never try again in this term
                sys.exit(f"refused: {error.diag.message_primary}")
            raise
        time.sleep(1)


if __name__ == "__main__":
    main()
