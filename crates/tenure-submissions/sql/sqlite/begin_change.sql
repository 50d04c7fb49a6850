-- The number of this transaction, and the moment of its writes: read when the file's one write lock is held.
UPDATE submission_changes SET number = number + 1 RETURNING number, unixtime_us() AS now
