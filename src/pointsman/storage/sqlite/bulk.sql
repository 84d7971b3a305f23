-- Bulk work: what was asked for, its ranges, and the part of each that is done.

CREATE TABLE bulk_jobs (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    given BLOB NOT NULL,
    begun_us INTEGER NOT NULL,
    ended_us INTEGER,
    state TEXT NOT NULL,
    is_clean INTEGER,
    told TEXT NOT NULL,
    found BLOB NOT NULL
) STRICT;

CREATE INDEX bulk_jobs_by_time ON bulk_jobs (begun_us);

CREATE TABLE bulk_ranges (
    job TEXT NOT NULL REFERENCES bulk_jobs (id),
    place INTEGER NOT NULL,
    chain TEXT NOT NULL,
    chain_number INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    end_seq INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    trouble TEXT NOT NULL,
    done_us INTEGER,
    part BLOB,
    PRIMARY KEY (job, place)
) STRICT, WITHOUT ROWID;
