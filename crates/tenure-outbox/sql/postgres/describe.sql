-- What is installed, a line per fact, in a form that does not depend on the server's version: for comparing a
-- live database with what it should be. Reads the catalogs alone, so every role may run it.
WITH relations AS (
    SELECT c.oid, c.relname, c.relacl, c.reloptions
    FROM pg_catalog.pg_class AS c
    WHERE c.relnamespace = 'public'::pg_catalog.regnamespace
        AND c.relname IN (
            'payment_outbox_pending', 'payment_outbox_attempts', 'participant_outbox_sequences',
            'outbox_ordered_participants', 'outbox_ordered_rails', 'supervisor_outbox_status'
        )
), functions AS (
    SELECT p.oid, pg_catalog.format('%s(%s)', p.proname, pg_catalog.oidvectortypes(p.proargtypes)) AS signature, p.proowner, p.prosecdef, p.proconfig,
        p.prosrc, p.proacl
    FROM pg_catalog.pg_proc AS p
    WHERE p.pronamespace = 'public'::pg_catalog.regnamespace
        AND p.proname = ANY ($1::text[])
), roles AS (
    SELECT r.rolname, r.oid, r.rolcanlogin, r.rolsuper
    FROM pg_catalog.pg_roles AS r
    WHERE r.rolname LIKE 'symphony\_%'
)
SELECT fact FROM (
    SELECT pg_catalog.format('role %s: %s', rolname,
        CASE WHEN rolsuper THEN 'superuser' WHEN rolcanlogin THEN 'can log in' ELSE 'cannot log in' END) AS fact
    FROM roles
    UNION ALL
    SELECT pg_catalog.format('type outbox_attempt_state: %s',
        pg_catalog.string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder))
    FROM pg_catalog.pg_enum AS e
    WHERE e.enumtypid = pg_catalog.to_regtype('public.outbox_attempt_state')
    HAVING count(*) > 0
    UNION ALL
    SELECT pg_catalog.format('column %s.%s: %s%s', r.relname, a.attname,
        pg_catalog.format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN ' not null' ELSE '' END)
    FROM relations AS r JOIN pg_catalog.pg_attribute AS a ON a.attrelid = r.oid
    WHERE a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT pg_catalog.format('options of %s: %s', r.relname,
        (SELECT pg_catalog.string_agg(o, ', ' ORDER BY o) FROM unnest(r.reloptions) AS o))
    FROM relations AS r WHERE r.reloptions IS NOT NULL
    UNION ALL
    SELECT pg_catalog.format('constraint %s.%s: %s%s', r.relname, c.conname, pg_catalog.pg_get_constraintdef(c.oid),
        CASE WHEN c.convalidated THEN '' ELSE ' (not valid)' END)
    FROM relations AS r JOIN pg_catalog.pg_constraint AS c ON c.conrelid = r.oid
    WHERE c.contype <> 'n'
    UNION ALL
    SELECT pg_catalog.format('index %s%s', pg_catalog.pg_get_indexdef(i.indexrelid),
        CASE WHEN i.indisvalid THEN '' ELSE ' (not valid)' END)
    FROM relations AS r JOIN pg_catalog.pg_index AS i ON i.indrelid = r.oid
    UNION ALL
    SELECT pg_catalog.format('trigger %s%s', pg_catalog.pg_get_triggerdef(t.oid),
        CASE t.tgenabled WHEN 'A' THEN ' (always)' WHEN 'O' THEN '' ELSE ' (switched off)' END)
    FROM relations AS r JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = r.oid
    WHERE NOT t.tgisinternal
    UNION ALL
    SELECT pg_catalog.format('view %s: %s', r.relname,
        pg_catalog.md5(pg_catalog.regexp_replace(pg_catalog.pg_get_viewdef(r.oid), '\s+', ' ', 'g')))
    FROM relations AS r JOIN pg_catalog.pg_class AS c ON c.oid = r.oid AND c.relkind = 'v'
    UNION ALL
    SELECT pg_catalog.format('function %s: owner %s, %s, settings {%s}, body %s', f.signature,
        CASE WHEN f.proowner = (SELECT c.relowner FROM pg_catalog.pg_class AS c
            WHERE c.oid = pg_catalog.to_regclass('public.payment_outbox_attempts'))
            THEN 'the installer' ELSE pg_catalog.pg_get_userbyid(f.proowner)::text END, CASE WHEN f.prosecdef THEN 'definer' ELSE 'invoker' END,
        pg_catalog.array_to_string(f.proconfig, '; '), pg_catalog.md5(f.prosrc))
    FROM functions AS f
    UNION ALL
    SELECT pg_catalog.format('grant on %s to %s: %s', r.relname,
        coalesce(g.rolname, 'PUBLIC'), pg_catalog.string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type))
    FROM relations AS r
    CROSS JOIN LATERAL pg_catalog.aclexplode(r.relacl) AS a
    LEFT JOIN pg_catalog.pg_roles AS g ON g.oid = a.grantee
    WHERE a.grantee <> (SELECT c.relowner FROM pg_catalog.pg_class AS c WHERE c.oid = r.oid)
        AND a.privilege_type <> 'MAINTAIN'
    GROUP BY r.relname, g.rolname
    UNION ALL
    SELECT pg_catalog.format('grant on column %s.%s to %s: %s', r.relname, c.attname,
        coalesce(g.rolname, 'PUBLIC'), pg_catalog.string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type))
    FROM relations AS r
    JOIN pg_catalog.pg_attribute AS c ON c.attrelid = r.oid
    CROSS JOIN LATERAL pg_catalog.aclexplode(c.attacl) AS a
    LEFT JOIN pg_catalog.pg_roles AS g ON g.oid = a.grantee
    GROUP BY r.relname, c.attname, g.rolname
    UNION ALL
    SELECT pg_catalog.format('grant on function %s to %s', f.signature, coalesce(g.rolname, 'PUBLIC'))
    FROM functions AS f
    CROSS JOIN LATERAL pg_catalog.aclexplode(coalesce(f.proacl, pg_catalog.acldefault('f', f.proowner))) AS a
    LEFT JOIN pg_catalog.pg_roles AS g ON g.oid = a.grantee
    WHERE a.grantee <> f.proowner
    UNION ALL
    SELECT pg_catalog.format('grant on schema public to %s: %s', coalesce(g.rolname, 'PUBLIC'), a.privilege_type)
    FROM pg_catalog.pg_namespace AS n
    CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) AS a
    LEFT JOIN pg_catalog.pg_roles AS g ON g.oid = a.grantee
    WHERE n.nspname = 'public' AND (a.grantee = 0 AND a.privilege_type = 'CREATE' OR g.oid IN (SELECT oid FROM roles))
) AS facts
ORDER BY fact COLLATE "C"
