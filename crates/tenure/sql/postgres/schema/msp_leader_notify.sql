-- Tells a channel who leads now: payload <holder>:<epoch>. The channel is the trigger's argument.
CREATE OR REPLACE FUNCTION msp_leader_notify() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_notify(coalesce(TG_ARGV[0], 'msp_leader_change'), NEW.holder_identity || ':' || NEW.epoch);
    RETURN NEW;
END
$$;
