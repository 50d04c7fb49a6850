-- What every session begins with. An error ends its transaction, whatever it was; nobody waits for a row for
-- ever; and the options are those that indexes with a condition need.
SET XACT_ABORT ON;
SET LOCK_TIMEOUT {lock_timeout};
SET NOCOUNT ON;
SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
