-- Agents that fall silent are stale, then tombstones, then forgotten: what each is from now on, so many at a time.
SELECT namespace, name, aging
FROM (
    SELECT namespace, name, state,
           CASE
               WHEN last_seen_at <= :deleted THEN 'deleted'
               WHEN last_seen_at <= :tombstoned THEN 'tombstoned'
               ELSE 'stale'
           END AS aging
    FROM tenure_job_agents
    WHERE last_seen_at <= :stale
)
WHERE aging = 'deleted' OR aging = 'tombstoned' AND state <> 'tombstoned' OR aging = 'stale' AND state = 'alive'
ORDER BY namespace, name
LIMIT :most
