-- The database's clock: the machine's.
SELECT unixtime_us()
