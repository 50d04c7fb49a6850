-- Whether leader changes are told on this channel: one row, one boolean. For whoever migrates.
-- $1 text: the channel. A trigger's arguments are stored one after the other, each ended by a zero byte.
SELECT EXISTS (
    SELECT FROM pg_trigger
    WHERE tgrelid = 'public.msp_leader_state'::regclass
      AND tgname = 'msp_leader_state_notify'
      AND tgargs = convert_to($1, getdatabaseencoding()) || '\x00'::bytea)
