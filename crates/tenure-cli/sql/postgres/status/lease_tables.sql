-- The lease tables that exist: the name that fences know them by, the name to read them by, and whether
-- this role may. A name without a schema means public. For any role with the rights of grant.sql.
SELECT lease_table.name,
       format('%I.%I', namespace.nspname, class.relname) AS quoted,
       has_schema_privilege(namespace.oid, 'USAGE')
           AND has_table_privilege(class.oid, 'SELECT') AS readable
FROM public.tenure_lease_tables AS lease_table
CROSS JOIN LATERAL (SELECT parse_ident(lease_table.name) AS part) AS parsed
JOIN pg_namespace AS namespace
    ON namespace.nspname = CASE cardinality(part) WHEN 1 THEN 'public' ELSE part[1] END
JOIN pg_class AS class
    ON class.relnamespace = namespace.oid AND class.relname = part[cardinality(part)]
ORDER BY lease_table.name
