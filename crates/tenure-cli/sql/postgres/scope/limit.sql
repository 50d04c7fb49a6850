-- Ends a statement that waits longer for fenced transactions, in the server and before the client gives up.
SET LOCAL statement_timeout = '20s'
