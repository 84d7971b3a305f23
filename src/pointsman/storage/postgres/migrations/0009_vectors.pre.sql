-- Where the server has pgvector, texts are compared there; elsewhere in memory, with the same result.
-- Made by a function, so that a server that gets the extension later gets this then.

-- Every different structure once. How alike two structures are is reckoned where the policy is.
CREATE TABLE pointsman_patterns.structures (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    body BYTEA NOT NULL UNIQUE
);

CREATE FUNCTION pointsman_patterns.add_vectors() RETURNS BOOLEAN LANGUAGE plpgsql AS $made$
DECLARE
    home TEXT;
BEGIN
    IF to_regclass('pointsman_patterns.looks') IS NOT NULL THEN
        RETURN TRUE;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
        RETURN FALSE;
    END IF;
    BEGIN
        CREATE EXTENSION IF NOT EXISTS vector SCHEMA public;
    EXCEPTION WHEN insufficient_privilege THEN
        RETURN FALSE;
    END;
    SELECT n.nspname INTO home FROM pg_extension AS e
    JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector';
    -- Halves hold whole numbers up to 2,048 exactly, and products are added up in singles: with
    -- 1,024 numbers up to 127 each partial sum is below 2^24, and so exact.
    EXECUTE format(
        'CREATE TABLE pointsman_patterns.looks (
            fingerprint TEXT COLLATE "C" NOT NULL PRIMARY KEY
                REFERENCES pointsman_patterns.fingerprints (id) ON DELETE CASCADE,
            structure BIGINT NOT NULL REFERENCES pointsman_patterns.structures (number),
            square BIGINT NOT NULL,
            look %I.halfvec(1024)
        )', home);
    -- Not moved out of line: every row is read at every search.
    ALTER TABLE pointsman_patterns.looks ALTER COLUMN look SET STORAGE PLAIN;
    EXECUTE format(
        'CREATE FUNCTION pointsman_patterns.add_look(name TEXT, structured BYTEA, letters BYTEA)
        RETURNS void LANGUAGE plpgsql AS $$
        DECLARE
            kept BIGINT;
            numbers INTEGER[];
        BEGIN
            INSERT INTO pointsman_patterns.structures (body) VALUES (structured)
            ON CONFLICT (body) DO NOTHING;
            SELECT number INTO kept FROM pointsman_patterns.structures WHERE body = structured;
            IF length(letters) = 1024 THEN
                SELECT array_agg((get_byte(letters, place) + 128) %% 256 - 128 ORDER BY place)
                INTO numbers FROM generate_series(0, 1023) AS place;
            END IF;
            INSERT INTO pointsman_patterns.looks (fingerprint, structure, square, look)
            VALUES (name, kept, coalesce((SELECT sum(n * n) FROM unnest(numbers) AS n), 0),
                numbers::%1$I.halfvec(1024));
        END;
        $$', home);
    CREATE FUNCTION pointsman_patterns.look_added() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pointsman_patterns.add_look(NEW.id, NEW.body, NEW.vector);
        RETURN NULL;
    END;
    $$;
    CREATE TRIGGER look_added AFTER INSERT ON pointsman_patterns.fingerprints
        FOR EACH ROW EXECUTE FUNCTION pointsman_patterns.look_added();
    PERFORM pointsman_patterns.add_look(id, body, vector) FROM pointsman_patterns.fingerprints;
    RETURN TRUE;
END;
$made$;

SELECT pointsman_patterns.add_vectors();
