-- is_made: whether there is a table to ask
SELECT 1 FROM sqlite_schema WHERE name = 'versions';

-- newest: the latest version of a key
SELECT namespace, key, version, value,
    request_id, entry, action_hash, requested_by, approved_by, at_us
FROM versions WHERE namespace = ? AND key = ? ORDER BY version DESC LIMIT 1;

-- history: every version of a key, the oldest first
SELECT namespace, key, version, value,
    request_id, entry, action_hash, requested_by, approved_by, at_us
FROM versions WHERE namespace = ? AND key = ? ORDER BY version;

-- by_request: what a request wrote
SELECT namespace, key, version, value,
    request_id, entry, action_hash, requested_by, approved_by, at_us
FROM versions WHERE request_id = ?;

-- listed: the latest version of every key in a namespace that holds a value
SELECT namespace, key, version, value,
    request_id, entry, action_hash, requested_by, approved_by, at_us
FROM versions AS v WHERE namespace = ? AND value IS NOT NULL
    AND version = (SELECT max(version) FROM versions WHERE namespace = v.namespace AND key = v.key)
ORDER BY key;

-- all_versions: everything, in the order of its keys
SELECT namespace, key, version, value,
    request_id, entry, action_hash, requested_by, approved_by, at_us
FROM versions ORDER BY namespace, key, version;

-- add_version: the next version of a key
INSERT INTO versions
    (namespace, key, version, value,
    request_id, entry, action_hash, requested_by, approved_by, at_us)
VALUES (:namespace, :key,
    (SELECT coalesce(max(version), 0) + 1 FROM versions
        WHERE namespace = :namespace AND key = :key),
    :value, :request_id, :entry, :action_hash, :requested_by, :approved_by, :at);
