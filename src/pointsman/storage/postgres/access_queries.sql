-- all_keys: every key, in the order they were made
SELECT id, digest, body, revoked_at, last_used_at, changed FROM keys ORDER BY number;
