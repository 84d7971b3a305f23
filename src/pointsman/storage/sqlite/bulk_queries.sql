-- add_job: begin some work
INSERT INTO bulk_jobs (id, kind, given, begun_us, ended_us, state, is_clean, told, found)
VALUES (?, ?, ?, ?, NULL, 'running', NULL, '', ?);

-- add_range: one range of it
INSERT INTO bulk_ranges
    (job, place, chain, chain_number, first_seq, end_seq, tries, trouble, done_us, part)
VALUES (?, ?, ?, ?, ?, ?, 0, '', NULL, NULL);

-- list_jobs: what was asked for and how far it is, the newest first
SELECT j.id, j.kind, j.begun_us, j.ended_us, j.state, j.is_clean, j.told,
    (SELECT count(*) FROM bulk_ranges AS r WHERE r.job = j.id),
    (SELECT count(*) FROM bulk_ranges AS r WHERE r.job = j.id AND r.done_us IS NOT NULL),
    (SELECT cast(coalesce(sum(r.end_seq - r.first_seq), 0) AS BIGINT) FROM bulk_ranges AS r WHERE r.job = j.id),
    (SELECT cast(coalesce(sum(r.end_seq - r.first_seq), 0) AS BIGINT) FROM bulk_ranges AS r
        WHERE r.job = j.id AND r.done_us IS NOT NULL),
    (SELECT max(r.done_us) FROM bulk_ranges AS r WHERE r.job = j.id),
    (SELECT count(*) FROM bulk_ranges AS r WHERE r.job = j.id AND r.trouble <> '')
FROM bulk_jobs AS j WHERE j.id LIKE ? ORDER BY j.begun_us DESC, j.id DESC LIMIT ?;

-- find_same: work of the same kind and parameters that is not at its end
SELECT id FROM bulk_jobs WHERE kind = ? AND given = ? AND state = 'running'
ORDER BY begun_us, id LIMIT 1;

-- running_jobs: what is not at its end, the oldest first
SELECT id FROM bulk_jobs WHERE state = 'running' ORDER BY begun_us, id;

-- read_given: the parameters of some work
SELECT kind, given, state FROM bulk_jobs WHERE id = ?;

-- read_found: what came of some work
SELECT found FROM bulk_jobs WHERE id = ?;

-- waiting_ranges: what is not done of it
SELECT place, chain, chain_number, first_seq, end_seq FROM bulk_ranges
WHERE job = ? AND done_us IS NULL ORDER BY place;

-- waiting_range: one range of it, unless it is done
SELECT place, chain, chain_number, first_seq, end_seq FROM bulk_ranges
WHERE job = ? AND place = ? AND done_us IS NULL;

-- keep_part: a range is done; a second time changes nothing
UPDATE bulk_ranges SET part = ?, done_us = ?, tries = tries + 1, trouble = ''
WHERE job = ? AND place = ? AND done_us IS NULL;

-- note_trouble: a range could not be done
UPDATE bulk_ranges SET trouble = ?, tries = tries + 1
WHERE job = ? AND place = ? AND done_us IS NULL;

-- read_tries: how often a range was tried
SELECT tries FROM bulk_ranges WHERE job = ? AND place = ?;

-- read_parts: what came of every range, in order
SELECT part FROM bulk_ranges WHERE job = ? AND done_us IS NOT NULL ORDER BY place;

-- read_troubles: what stands in the way
SELECT place, chain, first_seq, end_seq, tries, trouble FROM bulk_ranges
WHERE job = ? AND trouble <> '' ORDER BY place LIMIT ?;

-- end_job: what came of it; the first to say so is heard
UPDATE bulk_jobs SET state = ?, ended_us = ?, is_clean = ?, told = ?, found = ?
WHERE id = ? AND state = 'running';
