-- find: the largest tree of a log
SELECT note FROM logs WHERE origin = ?;

-- list: the logs whose origin begins like this
SELECT origin, size, note FROM logs WHERE origin >= ? AND origin < ? ORDER BY origin LIMIT ?;

-- count: how many logs there are
SELECT count(*) FROM logs;

-- replace: keep the largest tree of a log
INSERT INTO logs (origin, size, note) VALUES (?, ?, ?)
ON CONFLICT (origin) DO UPDATE SET size = excluded.size, note = excluded.note;
