-- Fires on transitions only: NOTIFY takes a database-wide lock at commit, and heartbeats are many.
DROP TRIGGER IF EXISTS msp_leader_state_notify ON msp_leader_state;
CREATE TRIGGER msp_leader_state_notify
AFTER UPDATE ON msp_leader_state
FOR EACH ROW
WHEN (OLD.holder_identity IS DISTINCT FROM NEW.holder_identity OR OLD.epoch IS DISTINCT FROM NEW.epoch)
EXECUTE FUNCTION msp_leader_notify('msp_leader_change');
