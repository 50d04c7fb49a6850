-- Creates a lease table under any name, and lets the fence look at it. For whoever migrates.
-- The name may be qualified with a schema; without one the table goes to public.
-- server: which server granted the term; empty where its client did not say.
-- unknown_until: until then a term that another server granted may be acted in, and nobody here knows of it.
CREATE OR REPLACE FUNCTION tenure_create_lease_table(name text) RETURNS void
LANGUAGE plpgsql
SET search_path = public, pg_catalog, pg_temp
AS $$
DECLARE
    -- parse_ident splits "schema.table"; quote_ident makes each part safe to write down again.
    place text := (SELECT string_agg(quote_ident(part), '.') FROM unnest(parse_ident(name)) AS part);
BEGIN
    EXECUTE format(
        'CREATE TABLE IF NOT EXISTS %s (
            lease_name  varchar(64)  PRIMARY KEY,
            holder_id   varchar(128) NOT NULL,
            lease_epoch bigint       NOT NULL,
            acquired_at timestamptz  NOT NULL,
            renewed_at  timestamptz  NOT NULL,
            expires_at  timestamptz  NOT NULL
        ) WITH (fillfactor = 50)', place);
    EXECUTE format(
        'ALTER TABLE %s
            ADD COLUMN IF NOT EXISTS nonce         text        NOT NULL DEFAULT '''',
            ADD COLUMN IF NOT EXISTS server        text        NOT NULL DEFAULT '''',
            ADD COLUMN IF NOT EXISTS unknown_until timestamptz NOT NULL DEFAULT ''-infinity''', place);
    INSERT INTO tenure_lease_tables (name) VALUES (place) ON CONFLICT DO NOTHING;
END
$$;
