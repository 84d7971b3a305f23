-- Bulk work: what was asked for, its ranges, and the part of each that is done.

CREATE SCHEMA pointsman_bulk;

CREATE TABLE pointsman_bulk.bulk_jobs (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    given BYTEA NOT NULL,
    begun_us BIGINT NOT NULL,
    ended_us BIGINT,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
    is_clean INTEGER,
    told TEXT NOT NULL,
    found BYTEA NOT NULL
);

CREATE INDEX bulk_jobs_by_time ON pointsman_bulk.bulk_jobs (begun_us);

CREATE TABLE pointsman_bulk.bulk_ranges (
    job TEXT COLLATE "C" NOT NULL REFERENCES pointsman_bulk.bulk_jobs (id),
    place BIGINT NOT NULL,
    chain TEXT COLLATE "C" NOT NULL,
    chain_number BIGINT NOT NULL,
    first_seq BIGINT NOT NULL,
    end_seq BIGINT NOT NULL,
    tries INTEGER NOT NULL,
    trouble TEXT NOT NULL,
    done_us BIGINT,
    part BYTEA,
    PRIMARY KEY (job, place)
);
