-- The outbox at a glance, as JSON with the view's columns in their order.
SELECT row_to_json(s)::text AS status FROM public.supervisor_outbox_status AS s
