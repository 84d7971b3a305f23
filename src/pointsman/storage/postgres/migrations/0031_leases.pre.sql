-- Who took a sole right last. Whoever writes under one shows its number in the same transaction: a
-- right that was lost with its connection and taken by another writes nothing more.
CREATE SEQUENCE pointsman.lease_tokens;

CREATE TABLE pointsman.leases (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL
);
