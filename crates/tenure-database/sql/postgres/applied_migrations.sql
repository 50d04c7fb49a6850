-- What has been applied of a component, in order.
-- $1 text: the component.
SELECT version, name, checksum, breaking
FROM public.tenure_migrations
WHERE component = $1
ORDER BY version
