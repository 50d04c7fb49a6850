#!/usr/bin/env bash
# A leader in bash: acts once a second, each act in a transaction that opens with the fence.
#
#   tenure --db "$DATABASE_URL" run --scope report -- docs/examples/report.sh
set -euo pipefail

act() {
    psql --quiet --no-psqlrc --output /dev/null --set ON_ERROR_STOP=1 --single-transaction \
        --set scope="$TENURE_SCOPE" --set node="$TENURE_NODE_ID" --set epoch="$TENURE_EPOCH" \
        "$DATABASE_URL" <<'SQL'
SELECT tenure_fence(:'scope', :'node', :epoch);
INSERT INTO reports (line) VALUES ('from bash, in term ' || :'epoch');
SQL
}

# A refusal ends the program, and with it the term.
while true; do
    act
    sleep 1
done
