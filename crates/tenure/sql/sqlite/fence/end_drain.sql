-- Lets whoever was drained contend again.
-- ?1 text: scope.
DELETE FROM tenure_drains WHERE scope = ?1
