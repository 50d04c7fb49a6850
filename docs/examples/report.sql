-- One act of a leader, by psql. Whoever is not in the current term is refused (TN001), and nothing is written:
--
--   psql --set ON_ERROR_STOP=1 --single-transaction \
--        --set scope="$TENURE_SCOPE" --set node="$TENURE_NODE_ID" --set epoch="$TENURE_EPOCH" \
--        --file report.sql "$DATABASE_URL"
SELECT tenure_fence(:'scope', :'node', :epoch);
INSERT INTO reports (line) VALUES ('from psql, in term ' || :'epoch');
