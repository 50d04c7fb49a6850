-- Tells leader changes on another channel. For whoever migrates: it needs the table's owner.
-- The channel is filled in as a quoted literal. Transitions only: see msp_leader_state_notify in the schema.
CREATE OR REPLACE TRIGGER msp_leader_state_notify
AFTER UPDATE ON public.msp_leader_state
FOR EACH ROW
WHEN (OLD.holder_identity IS DISTINCT FROM NEW.holder_identity OR OLD.epoch IS DISTINCT FROM NEW.epoch)
EXECUTE FUNCTION public.msp_leader_notify({channel});
