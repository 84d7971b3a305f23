-- read_meta: the ledger's own facts
SELECT value FROM meta WHERE key = ?;

-- write_meta: set one of the ledger's own facts, once
INSERT INTO meta (key, value) VALUES (?, ?);

-- find_chain: a chain's number by its name
SELECT id FROM chains WHERE name = ?;

-- add_chain: start a chain
INSERT INTO chains (name) VALUES (?);

-- list_chains: every chain, by name
SELECT id, name FROM chains ORDER BY name;

-- append_entry: one entry at the end of a chain
INSERT INTO entries (chain, seq, at_us, kind, id, ref, payload, attached, prev, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- appending: one statement that appends entries and attachments and signs, as `part` says
CREATE TEMP VIEW appending AS
SELECT '' AS part, 0 AS chain, 0 AS seq, 0 AS at_us, '' AS kind, '' AS id, '' AS ref,
    x'' AS payload, x'' AS attached, x'' AS prev, x'' AS hash;
CREATE TEMP TRIGGER appending_entry INSTEAD OF INSERT ON appending WHEN NEW.part = 'entry'
BEGIN
    INSERT INTO entries (chain, seq, at_us, kind, id, ref, payload, attached, prev, hash)
    VALUES (NEW.chain, NEW.seq, NEW.at_us, NEW.kind, NEW.id, NEW.ref, NEW.payload, NEW.attached,
        NEW.prev, NEW.hash);
END;
CREATE TEMP TRIGGER appending_attachment INSTEAD OF INSERT ON appending WHEN NEW.part = 'body'
BEGIN
    INSERT INTO attachments (chain, seq, place, body)
    VALUES (NEW.chain, NEW.seq, NEW.at_us, NEW.payload);
END;
CREATE TEMP TRIGGER appending_stamp INSTEAD OF INSERT ON appending WHEN NEW.part = 'stamp'
BEGIN
    UPDATE chains SET stamp = NEW.payload WHERE id = NEW.chain;
END;

-- append: what `appending` takes
INSERT INTO appending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- append_attachment: the bytes an entry names by digest
INSERT INTO attachments (chain, seq, place, body) VALUES (?, ?, ?, ?);

-- chain_size: the number that the next entry of a chain would have
SELECT coalesce(max(seq), -1) + 1 FROM entries WHERE chain = ?;

-- write_stamp: sign where a chain ends now
UPDATE chains SET stamp = ? WHERE id = ?;

-- restamp: the same, unless it was signed anew meanwhile
UPDATE chains SET stamp = ? WHERE id = ? AND stamp = ?;

-- read_stamp: what was signed about where a chain ends
SELECT stamp FROM chains WHERE id = ?;

-- chain_entries: a chain's entries in order, from one on
SELECT seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE chain = ? AND seq >= ? ORDER BY seq;

-- chain_hashes: the hashes of a chain's entries in order, from one on, as one text
SELECT group_concat(hex(hash), '' ORDER BY seq) FROM entries WHERE chain = ? AND seq >= ?;

-- entries_of_kind: entries of one kind in the order they happened
SELECT chain, seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE kind >= ? AND kind < ? AND at_us >= ? ORDER BY at_us, chain, seq;

-- newest_of_kind: the latest entry of one kind
SELECT chain, seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE kind = ? ORDER BY at_us DESC, chain DESC, seq DESC LIMIT 1;

-- count_of_kind: how many entries one kind has
SELECT count(*) FROM entries WHERE kind = ?;

-- entries_with_id: entries by their own id
SELECT chain, seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE id = ? ORDER BY at_us, chain, seq;

-- entries_with_ref: entries by what they belong to
SELECT chain, seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE ref = ? AND ref <> '' ORDER BY at_us, chain, seq;

-- ends_and_verdicts: how several things ended and what followed; as many marks as there are names
SELECT kind, id, ref, payload FROM entries
WHERE ref IN (?) AND ref <> '' AND kind IN (
    'outcome', 'event.feedback.given', 'event.turn.judged',
    'decision.turn.fallback', 'decision.turn.override', 'decision.turn.shadow'
) ORDER BY at_us, chain, seq;

-- entries_mentioning: the entries of one kind before an instant that hold some bytes, latest first
SELECT chain, seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE kind = ? AND at_us < ? AND instr(payload, ?) > 0
ORDER BY at_us DESC, chain DESC, seq DESC;

-- newest_mentioning: the latest entry of one kind whose payload holds some bytes
SELECT chain, seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE kind = ? AND instr(payload, ?) > 0 ORDER BY at_us DESC, chain DESC, seq DESC LIMIT 1;

-- all_mentioning: every entry whose payload holds some bytes
SELECT chain, seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE instr(payload, ?) > 0;

-- entry_attachments: what one entry carries
SELECT body FROM attachments WHERE chain = ? AND seq = ? ORDER BY place;

-- chain_attachments: what a chain's entries name and what is stored for them
SELECT e.seq, e.attached, a.place, a.body
FROM entries AS e LEFT JOIN attachments AS a ON a.chain = e.chain AND a.seq = e.seq
WHERE e.chain = ? AND (e.attached <> x'' OR a.place IS NOT NULL) ORDER BY e.seq, a.place;

-- stray_rows: rows that belong to no chain or no entry
SELECT 'entry', e.chain, e.seq FROM entries AS e
WHERE NOT EXISTS (SELECT 1 FROM chains AS c WHERE c.id = e.chain)
UNION ALL
SELECT 'attachment', a.chain, a.seq FROM attachments AS a
WHERE NOT EXISTS (SELECT 1 FROM entries AS e WHERE e.chain = a.chain AND e.seq = a.seq)
LIMIT 1;

-- put_content: keep a text, unless one is kept or was erased
INSERT INTO contents (digest, kept, text) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING;

-- get_content: a kept text
SELECT kept, text FROM contents WHERE digest = ?;

-- get_contents: several kept texts; as many marks as there are names take the place of the one
SELECT digest, kept, text FROM contents WHERE digest IN (?);

-- erase_content: forget a text and remember that it was forgotten
UPDATE contents SET kept = 'erased', text = x'' WHERE digest = ? AND kept <> 'erased';

-- decisions_in_range: decisions of one chain with their facts, for replay
SELECT e.seq, e.at_us, e.kind, e.id, e.ref, e.payload, e.attached, e.prev, e.hash, a.body
FROM entries AS e LEFT JOIN attachments AS a
    ON a.chain = e.chain AND a.seq = e.seq AND a.place = 0
WHERE e.chain = ? AND e.seq >= ? AND e.seq < ? AND e.at_us >= ?
    AND e.kind >= 'decision.' AND e.kind < 'decision/'
ORDER BY e.seq;

-- recent_of_kind: the latest entries of one kind, before an instant
SELECT chain, seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE kind = ? AND at_us < ? ORDER BY at_us DESC, chain DESC, seq DESC LIMIT ?;

-- entries_in_range: entries of one chain and kind, for bulk work
SELECT seq, at_us, kind, id, ref, payload, attached, prev, hash FROM entries
WHERE chain = ? AND seq >= ? AND seq < ? AND kind >= ? AND kind < ? ORDER BY seq;

-- attachments_in_range: what some entries of a chain name and what is stored for them
SELECT e.seq, e.attached, a.place, a.body
FROM entries AS e LEFT JOIN attachments AS a ON a.chain = e.chain AND a.seq = e.seq
WHERE e.chain = ? AND e.seq >= ? AND e.seq < ? AND (length(e.attached) > 0 OR a.place IS NOT NULL)
ORDER BY e.seq, a.place;
