-- Semantic memory: every version of every key, and by which request it came to be.
CREATE SCHEMA pointsman_semantic;

CREATE TABLE pointsman_semantic.versions (
    namespace TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL CHECK (version >= 1),
    value BYTEA,
    request_id TEXT COLLATE "C" NOT NULL UNIQUE,
    entry TEXT NOT NULL,
    action_hash TEXT NOT NULL,
    requested_by TEXT NOT NULL,
    approved_by TEXT NOT NULL,
    at_us BIGINT NOT NULL,
    PRIMARY KEY (namespace, key, version)
);
CREATE FUNCTION pointsman_semantic.versions_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a version of semantic memory is never changed or removed';
END;
$$;
CREATE TRIGGER versions_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON pointsman_semantic.versions
    FOR EACH STATEMENT EXECUTE FUNCTION pointsman_semantic.versions_stay();
