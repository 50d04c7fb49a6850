-- What a role needs to run elections and to write through the fence, and nothing more.
GRANT SELECT, UPDATE ON public.msp_leader_state TO {role};
GRANT SELECT, INSERT, UPDATE ON public.tenure_leases TO {role};
GRANT SELECT ON public.tenure_fences, public.tenure_terms, public.tenure_migrations,
    public.tenure_lease_tables, public.tenure_drains TO {role};
GRANT SELECT, UPDATE (lockable) ON public.tenure_fence_slots TO {role};
GRANT EXECUTE ON FUNCTION
    public.tenure_fence(text, text, bigint),
    public.tenure_fence_slot(),
    public.tenure_raise_fence(text, text, bigint, text, text, bigint),
    public.tenure_end_term(text, text, bigint, text),
    public.tenure_drain(text),
    public.tenure_end_drain(text),
    public.tenure_highest_epoch(text),
    public.tenure_server_identity(),
    public.tenure_create_advisory_scope(bigint, text)
TO {role};
