-- Keeps the slots of a scope equal to its fence row, whoever changes it and how.
CREATE FUNCTION tenure_fill_fence_slots() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
    UPDATE tenure_fence_slots
    SET epoch = NEW.epoch, holder = NEW.holder, lock_kind = NEW.lock_kind, lock_place = NEW.lock_place,
        margin_ms = NEW.margin_ms
    WHERE scope = NEW.scope;
    IF NOT FOUND THEN
        INSERT INTO tenure_fence_slots (scope, slot, epoch, holder, lock_kind, lock_place, margin_ms)
        SELECT NEW.scope, slot, NEW.epoch, NEW.holder, NEW.lock_kind, NEW.lock_place, NEW.margin_ms
        FROM generate_series(0, 31) AS slot;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER fill_slots AFTER INSERT OR UPDATE ON tenure_fences
FOR EACH ROW EXECUTE FUNCTION tenure_fill_fence_slots();
