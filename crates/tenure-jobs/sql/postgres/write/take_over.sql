-- The first change of a term: who leads from now on and where; whoever works gets time to hand in what it finished
-- meanwhile, and agents are not counted as silent for as long as nobody heard them.
-- $1 bigint: the leader's epoch, $2 text: its scope, $3 text: its id, $4 text: its URL, $5 bigint: the window in ms.
-- One row: how many leases are open.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), claimed AS (
    UPDATE public.tenure_job_changes SET scope = $2::text WHERE scope <> $2::text
), leader AS (
    INSERT INTO public.tenure_job_leaders (leader_epoch, leader_id, leader_url, began_at)
    SELECT $1::bigint, $3::text, $4::text, moment.now FROM moment
), extended AS (
    UPDATE public.tenure_jobs AS j
    SET lease_expires_at = greatest(j.lease_expires_at, moment.now + $5::bigint * interval '1 millisecond'),
        leader_epoch = $1::bigint
    FROM moment
    WHERE j.state = 'leased'
    RETURNING j.row_number
), heard AS (
    UPDATE public.tenure_job_agents AS a
    SET last_seen_at = moment.now, leader_epoch = $1::bigint
    FROM moment
    WHERE a.state = 'alive'
)
SELECT count(*) AS open FROM extended
