#!/usr/bin/env python3
"""A client and an agent of the controller, in plain Python.

    export TENURE_CONTROLLERS=http://localhost:8700,http://localhost:8701
    python3 client.py work my-agent        # do jobs, until it is told to stop
    python3 client.py submit 10            # submit ten, and wait until they are done

TENURE_TOKEN holds the token, where the controller asks for one.
"""

import json
import os
import random
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid


class Controller:
    """Finds whoever leads, and asks there until it is answered."""

    def __init__(self, urls, token=None):
        self.urls = urls
        self.here = urls[0]
        self.token = token

    def call(self, method, path, body=None, timeout=10):
        """The status and the answer; tries again as long as nobody leads or answers."""
        pause = 0.1
        while True:
            status, answer = self._ask(method, path, body, timeout)
            if status is None or status == 503:
                self._elsewhere()
            elif answer and answer.get("error") == "NOT_LEADER":
                if answer["leader_url"] and answer["leader_url"] != self.here:
                    self.here = answer["leader_url"]
                    continue_at_once = pause <= 0.1
                    pause *= 2
                    if continue_at_once:
                        continue
                else:
                    self._elsewhere()
            elif answer and answer.get("stale") == "leader":
                self._elsewhere()
            else:
                return status, answer
            time.sleep(pause * random.random())
            pause = min(pause * 2, 2)

    def _elsewhere(self):
        others = [url for url in self.urls if url != self.here]
        self.here = random.choice(others or self.urls)

    def _ask(self, method, path, body, timeout):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.here + path, data, method=method)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                text = response.read()
                return response.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                return error.code, json.loads(text)
            except ValueError:
                return error.code, {"error": text.decode(errors="replace")}
        except OSError:
            return None, None


def submit(controller, count):
    """Ids are ours, so that a job whose answer was lost is not submitted twice."""
    ids = [str(uuid.uuid4()) for _ in range(count)]
    for number, job_id in enumerate(ids):
        job = {"job_id": job_id, "op": "square", "payload": {"number": number}}
        status, answer = controller.call("POST", "/v1/jobs", job)
        if status != 200:
            sys.exit(f"not accepted: {answer}")
    ended = {}
    while len(ended) < count:
        for job_id in ids:
            if job_id not in ended:
                status, job = controller.call("GET", f"/v1/jobs/{job_id}")
                if status == 200 and job["state"] in ("succeeded", "failed"):
                    ended[job_id] = job["state"]
        time.sleep(0.02)
    print(sum(state == "succeeded" for state in ended.values()), "succeeded")


def work(controller, name):
    held = []

    def beat():
        mine = Controller(controller.urls, controller.token)
        while True:
            # Only what it works on: whatever else is in its name, of an earlier process, say, shall run out.
            heartbeat = {"name": name, "capabilities": {"ops": ["square"]}, "leases": list(held)}
            mine.call("POST", "/v1/agents/heartbeat", heartbeat)
            time.sleep(5)

    threading.Thread(target=beat, daemon=True).start()
    # It holds nothing when it asks: whatever an earlier leader has granted it was lost on the way.
    ask = {"agent": name, "capabilities": ["square"], "max_tasks": 8, "timeout_ms": 5000, "leases": []}
    while True:
        status, lease = controller.call("POST", "/v1/leases", ask, timeout=15)
        if status == 200:
            held.append(lease["lease_id"])
            results = [do(task) for task in lease["tasks"]]
            report = {"lease_id": lease["lease_id"], "agent": name, "results": results}
            # Whatever is refused for good is somebody else's by now; nothing is left to do about it.
            controller.call("POST", "/v1/results", report)
            held.clear()
        elif status != 204:
            time.sleep(1)


def do(task):
    result = {"job_id": task["job_id"], "job_epoch": task["job_epoch"]}
    try:
        number = task["payload"]["number"]
        return {**result, "status": "succeeded", "result": {"square": number * number}}
    except Exception as error:
        return {**result, "status": "failed", "error": repr(error)}


def main():
    urls = os.environ.get("TENURE_CONTROLLERS", "http://localhost:8700").split(",")
    controller = Controller(urls, os.environ.get("TENURE_TOKEN"))
    if len(sys.argv) == 3 and sys.argv[1] == "submit":
        submit(controller, int(sys.argv[2]))
    elif len(sys.argv) == 3 and sys.argv[1] == "work":
        work(controller, sys.argv[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
