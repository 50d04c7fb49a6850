-- Which server process answers: one row, its pid. Anybody may ask.
SELECT pg_backend_pid()
