//! The longer texts of `--help`: examples, and what the exit codes mean.

macro_rules! exit_codes {
    ($done:literal, $failed:literal) => {
        concat!(
            "Exit codes:\n  0  ",
            $done,
            "\n  1  failed; the message on stderr says why",
            $failed,
            "\n  2  wrong usage; nothing was done"
        )
    };
}

pub const ABOUT: &str = "\
Tenure makes sure that exactly one of your processes acts, and can prove it, on the SQL database that \
you already run. A term is a numbered period in which one holder may act in one scope: a lock decides \
who wins it, and a fence in the database refuses whoever writes outside it. These commands run a program \
in one of many places, prepare a database, show who leads, and let an operator step in.";

pub const MAIN: &str = concat!(
    "\
Examples:
  tenure run --scope report -- ./make-report    run a program in one of many places
  tenure submissions --registry targets.json --http 8080
  tenure outbox work --rails rails.toml         work a payment outbox
  tenure node --config node.toml                a controller and an agent under one supervisor
  tenure migrate                                prepare the file tenure.db
  export TENURE_DB=postgres://owner@db/app
  tenure migrate --grant-to app                 prepare a server, for services that connect as app
  tenure status                                 who leads, for how long still, and who did before
  tenure drain --scope report                   make its leader hand over
  tenure scope burn-epochs --scope billing      after a restore from a backup

TENURE_LOG chooses what is logged to stderr, as in TENURE_LOG=tenure=debug; by default warnings.

",
    exit_codes!("done", "")
);

pub const RUN: &str = "\
Examples:
  tenure run --scope report -- ./make-report           in two terminals: one of them runs it
  tenure run --scope report --lease 3s -- ./make-report
  tenure --db postgres://app@db/app run --scope mail --restart always -- ./send-mail
  tenure run --scope db --standby './replica --follow' -- ./primary
  tenure run --scope nightly --shell -- 'dump | gzip > dump.gz'

Signals are passed on. SIGTERM and SIGINT end the program and hand over; a second one kills it.

Exit codes:
  the program's own, or 128 and the signal that ended it
  0    this copy was told to stop while it did not lead
  2    wrong usage; nothing was done
  125  tenure itself failed; the message on stderr says why
  126  the program could not be started
  127  the program was not found";

pub const SUBMISSIONS: &str = concat!(
    "\
Examples:
  tenure submissions --registry targets.json --http 8080
  tenure --db postgres://app@db/app submissions --registry targets.json --http 8080
  tenure submissions --registry targets.json --http 0.0.0.0:8080 --token-file /etc/tenure/token
  curl -d '{\"intentId\": \"order-7\", \"submissionTarget\": \"otp\", \"payload\": {}}' \\
       'localhost:8080/v1/intents?waitSeconds=5'

The API is described at /docs, and for programs at /openapi.json.

",
    exit_codes!("told to stop, and all was recorded", " (a missing schema, an address in use)")
);

pub const CONTROLLER: &str = concat!(
    "\
Examples:
  tenure controller                                    on the file tenure.db, at 127.0.0.1:8700
  tenure controller --http 8701                        a second one: it stands by, and serves reads
  curl -d '{\"op\":\"echo\",\"payload\":1}' localhost:8700/v1/jobs
  curl localhost:8701/role                             who leads, and where
  tenure --db postgres://app@db/app controller --http 0.0.0.0:8700 --url http://10.0.0.7:8700 \\
         --token-file clients --agent-token-file agents

The environment may hold HOST, PORT, DATABASE_URL, NODE_ID, LEADER_URL, LEADER_LOCK_KEY and LEADER_POLL_S.
/openapi.json describes the API, docs/jobs.md explains it. SIGTERM hands over: agents may report for a while.

",
    exit_codes!("told to stop", "")
);

pub const AGENT: &str = "\
Examples:
  tenure agent --controller http://localhost:8700      with the ops echo, sleep and sha256
  tenure agent --controller http://a:8700,http://b:8700 --ops ops.toml --token-file agents

ops.toml names programs:

  [ops.resize]
  command = [\"./resize\", \"--fast\"]   a line of JSON on its input, a JSON value on its output
  timeout = \"30s\"                     then it is killed with all that it started

Exit code 0 of a program means that the job succeeded, any other that it failed, with what it wrote to stderr.
SIGTERM lets running jobs finish and hands in their results; a second one kills them.

Exit codes:
  0  told to stop, and everything was handed in
  1  failed; the message on stderr says why
  2  wrong usage; nothing was done
  3  told to stop, and some results were not accepted by anybody: their jobs run again";

pub const NODE: &str = concat!(
    "\
node.toml:

  node_id = \"node-1\"                   one for each node
  database = \"sqlite:tenure.db\"        or postgres://USER@HOST/DATABASE, or TENURE_DB
  [http]                               the supervisor's own /role, /leader, /drain and /metrics
  address = \"8800\"
  [controller]                         the API
  http = \"8700\"
  [agent]                              works while this node does not lead; leave it out for none
  controllers = [\"http://localhost:8700\", \"http://localhost:8701\"]

docs/jobs.md has every setting.

Examples:
  tenure node --config node.toml
  tenure node --config node.toml --check               read the file, and start nothing
  tenure drain --url http://localhost:8800             hand over, and stay out

SIGTERM hands over: agents may report for a while, then the lock is released and everything ends.

",
    exit_codes!("told to stop", "")
);

pub const DEMO: &str = "\
Examples:
  tenure demo
  tenure demo --for 2m --rate 1000
  tenure --db postgres://app@db/scratch demo --json

With --db it wants a database that nobody uses, and leaves what it stored there; TENURE_DB is not looked at.

Exit codes:
  0  every intent was accepted, and none twice
  1  something was lost or executed twice, or the demo itself failed
  2  wrong usage";

pub const MIGRATE: &str = concat!(
    "\
Examples:
  tenure migrate
  tenure --db postgres://owner@db/app migrate --grant-to app
  tenure --db postgres://owner@db/app migrate --with submissions --grant-to app
  tenure --db postgres://owner@db/app migrate --print > tenure.sql

On Postgres, PG_LISTEN_CHANNEL names the channel that is told of every change of leader under an
advisory lock. Where it is not set, the channel stays as it is: msp_leader_change at first.

",
    exit_codes!("done, or nothing to do", " (an older binary after a breaking migration)")
);

pub const STATUS: &str = concat!(
    "\
Examples:
  tenure status
  tenure status --scope billing --terms 20
  tenure status --json | jq '.scopes[] | select(.held)'

States:
  held     somebody holds the lock
  free     nobody does, and the last holder ended its term
  expired  nobody does, and the last holder fell silent
  unknown  the lock is outside this database, or this role may not read it

",
    exit_codes!("done", " (an unknown scope, a missing schema)")
);

pub const DRAIN: &str = concat!(
    "\
Examples:
  tenure drain --scope report               whoever leads it hands over, within seconds
  tenure drain --scope report --undo        and may lead again
  tenure drain --url http://localhost:8080  this node, before it is stopped
  tenure drain --url http://node-7:8080 --token-file /etc/tenure/token

",
    exit_codes!("handed over, or nobody led", " (no hand-over in time, an unknown scope)")
);

pub const SCOPE: &str = concat!(
    "\
Examples:
  tenure scope burn-epochs --scope billing --by 5000
  tenure scope switch-lock --scope billing

",
    exit_codes!("done", " (an unknown scope, missing rights)")
);

pub const BURN_EPOCHS: &str = concat!(
    "\
Example:
  tenure scope burn-epochs --scope billing --by 5000

",
    exit_codes!("done", " (an unknown scope, missing rights)")
);

pub const SWITCH_LOCK: &str = concat!(
    "\
Example:
  tenure scope switch-lock --scope billing

",
    exit_codes!("done", " (an unknown scope, missing rights)")
);

pub const OUTBOX: &str = concat!(
    "\
Examples:
  export TENURE_DB=postgres://owner@db/payments
  tenure outbox install                                 tables, functions, roles and grants; again at will
  tenure outbox enqueue --file payments.jsonl           one JSON object per line
  tenure outbox work --rails rails.toml                 as often as you like, on as many machines
  tenure outbox stats
  tenure outbox doctor                                  is everything as it should be?

A worker that dies loses nothing: its rows are run again when their lease is over, after 30 seconds by
default, and the lost attempt is on record.

",
    exit_codes!("done", "")
);

pub const OUTBOX_INSTALL: &str = concat!(
    "\
Examples:
  tenure outbox install --db postgres://owner@db/payments
  tenure outbox install --print | less

Then let the roles that log in be one of symphony_ingest (enqueue), symphony_executor (work),
symphony_readonly or symphony_auditor (look): GRANT symphony_executor TO payments_worker.

",
    exit_codes!("installed, or printed", "")
);

pub const OUTBOX_ENQUEUE: &str = concat!(
    "\
Examples:
  tenure outbox enqueue --instruction-id i-1 --participant-id bank-a --idempotency-key k-1 \\
      --rail-type card --payload '{\"amount\": 100}'
  tenure outbox enqueue --file payments.jsonl
  generate | tenure outbox enqueue --file -

A line has instruction_id, participant_id, idempotency_key, rail_type and payload (an object). An
instruction that was enqueued before is not enqueued again, so a file may be sent again as a whole.

",
    exit_codes!(
        "every line is enqueued, now or before",
        ", with what was enqueued before; send the file again"
    )
);

pub const OUTBOX_WORK: &str = concat!(
    "\
Examples:
  tenure outbox work --rails rails.toml
  tenure outbox work --rails rails.toml --lease 5s --concurrency 50 --http 9100

A file of rails has a table per rail_type:
  [rails.card]
  type = \"http\"                     # POST, with Idempotency-Key: the same for every attempt
  url = \"https://cards.example/pay\"
  headers_env = { Authorization = \"CARD_TOKEN\" }
  timeout = \"10s\"
  failed = [403]                    # by default: 2xx is done; 3xx 401 403 407 408 409 425 429 5xx are
                                    # tried again; the rest has failed
  reference = \"/id\"                 # where the answer has the rail's reference

  [rails.bank]
  type = \"command\"                  # JSON in, {\"state\": \"DISPATCHED\"} out
  command = [\"./pay\", \"--live\"]

SIGTERM and SIGINT end it: what was not begun is given back, what was begun is awaited and recorded. A
second one ends it at once.

",
    exit_codes!("told to stop, and everything is recorded or given back", ", or not everything was")
);

pub const OUTBOX_DOCTOR: &str = concat!(
    "\
Examples:
  tenure outbox doctor
  tenure outbox doctor --json

",
    exit_codes!("everything is as this version installs it", ", or what differs is listed")
);

pub const OUTBOX_REPAIR: &str = concat!(
    "\
Example:
  tenure outbox repair          while no worker runs, to see what the dead ones have left

Each lost attempt is recorded, and its instruction is due again in a second, or FAILED at the ceiling.

",
    exit_codes!("done", "")
);

pub const OUTBOX_STATS: &str = concat!(
    "\
Examples:
  tenure outbox stats
  tenure outbox stats --json | jq .oldest_pending_age_seconds

An instruction counts by its latest attempt; dlq are those that failed after five attempts or more.

",
    exit_codes!("shown", "")
);
