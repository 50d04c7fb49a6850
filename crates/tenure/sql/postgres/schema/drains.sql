-- At most one row per scope: the last term that an operator asked to hand over.
CREATE TABLE tenure_drains (
    scope    text        PRIMARY KEY,
    epoch    bigint      NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE tenure_drains IS
    'Whoever led this term hands over, and stays out until the row is gone or nobody took over.';
