-- Events out of told(place, namespace, kind, job_id, job_epoch, agent, detail, lease_id), in the order of their places: the
-- end of a statement whose $1 is the leader's epoch and which has read the clock into moment(now).
numbered AS (
    UPDATE public.tenure_job_changes
    SET event_number = event_number + (SELECT count(*) FROM told)
    WHERE EXISTS (SELECT FROM told)
    RETURNING event_number - (SELECT count(*) FROM told) AS before
), kept_events AS (
    INSERT INTO public.tenure_job_events (
        event_number, namespace, kind, job_id, job_epoch, agent, detail, lease_id, leader_epoch, recorded_at
    )
    SELECT numbered.before + row_number() OVER (ORDER BY told.place), told.namespace, told.kind, told.job_id,
           told.job_epoch, told.agent, told.detail, told.lease_id, $1::bigint, moment.now
    FROM told CROSS JOIN numbered CROSS JOIN moment
), news AS MATERIALIZED (
    SELECT count(pg_notify('tenure_job_events', '')) FROM numbered
)
