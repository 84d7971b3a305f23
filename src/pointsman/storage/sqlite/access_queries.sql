-- add_key: a new key
INSERT INTO keys (id, digest, body, changed)
VALUES (?, ?, ?, (SELECT coalesce(max(changed), 0) + 1 FROM keys));

-- revoke_key: end a key; what was ended before stays as it is
UPDATE keys
SET revoked_at = ?, changed = (SELECT coalesce(max(changed), 0) + 1 FROM keys)
WHERE id = ? AND revoked_at IS NULL;

-- note_use: when a key was used last
UPDATE keys SET last_used_at = ? WHERE id = ? AND coalesce(last_used_at, 0) < ?;

-- changed_since: the keys that were made or ended after a change
SELECT id, digest, body, revoked_at, last_used_at, changed
FROM keys WHERE changed > ? ORDER BY changed;

-- all_keys: every key, in the order they were made
SELECT id, digest, body, revoked_at, last_used_at, changed FROM keys ORDER BY rowid;

-- admin_digest: the admin token that was made here
SELECT digest FROM admin;

-- add_admin: keep the first admin token
INSERT INTO admin (one, digest) VALUES (1, ?) ON CONFLICT DO NOTHING;
