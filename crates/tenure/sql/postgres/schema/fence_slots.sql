-- What fenced transactions lock, shared and until they commit: copies of their scope's fence row. A raise
-- changes all of them, and so waits for every open transaction and refuses every later one.
-- They are many because a row that several lock at once costs each of them a multixact, which is dear.
CREATE TABLE tenure_fence_slots (
    scope      text     NOT NULL REFERENCES tenure_fences ON DELETE CASCADE,
    slot       smallint NOT NULL,
    epoch      bigint   NOT NULL,
    holder     text     NOT NULL,
    lock_kind  text     NOT NULL,
    lock_place text     NOT NULL,
    margin_ms  bigint   NOT NULL,
    lockable   boolean  NOT NULL DEFAULT true,
    PRIMARY KEY (scope, slot)
) WITH (fillfactor = 50);
COMMENT ON COLUMN tenure_fence_slots.lockable IS
    'Means nothing: locking a row needs the right to update a column of it, and this one can be given away.';

-- The slot of this session. Sessions that begin one after the other get different ones.
CREATE FUNCTION tenure_fence_slot() RETURNS smallint
LANGUAGE sql STABLE
AS 'SELECT (pg_catalog.pg_backend_pid() & 31)::smallint';
