-- Makes the procedures, empty, unless they are there: what follows alters them, and so can be run again.
IF OBJECT_ID(N'dbo.tenure_create_lease_table', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE dbo.tenure_create_lease_table AS RETURN 0');
IF OBJECT_ID(N'dbo.tenure_fence', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE dbo.tenure_fence AS RETURN 0');
IF OBJECT_ID(N'dbo.tenure_raise_fence', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE dbo.tenure_raise_fence AS RETURN 0');
IF OBJECT_ID(N'dbo.tenure_begin_term', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE dbo.tenure_begin_term AS RETURN 0');
IF OBJECT_ID(N'dbo.tenure_end_term', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE dbo.tenure_end_term AS RETURN 0');
IF OBJECT_ID(N'dbo.tenure_drain', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE dbo.tenure_drain AS RETURN 0');
IF OBJECT_ID(N'dbo.tenure_end_drain', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE dbo.tenure_end_drain AS RETURN 0');
IF OBJECT_ID(N'dbo.tenure_burn_epochs', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE dbo.tenure_burn_epochs AS RETURN 0');
IF OBJECT_ID(N'dbo.tenure_switch_lock', N'P') IS NULL
    EXEC (N'CREATE PROCEDURE dbo.tenure_switch_lock AS RETURN 0');
