-- chain_hashes: the hashes of a chain's entries in order, from one on, as one text
SELECT upper(string_agg(encode(hash, 'hex'), '' ORDER BY seq))
FROM entries WHERE chain = ? AND seq >= ?;

-- entries_mentioning: the entries of one kind before an instant that hold some bytes, latest first
SELECT chain, seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE kind = ? AND at_us < ? AND position(?::bytea in payload) > 0
ORDER BY at_us DESC, chain DESC, seq DESC;

-- newest_mentioning: the latest entry of one kind whose payload holds some bytes
SELECT chain, seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE kind = ? AND position(?::bytea in payload) > 0
ORDER BY at_us DESC, chain DESC, seq DESC LIMIT 1;

-- all_mentioning: every entry whose payload holds some bytes
SELECT chain, seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE position(?::bytea in payload) > 0;
