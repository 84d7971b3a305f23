-- chain_hashes: the hashes of a chain's entries in order, from one on, as one text
SELECT upper(string_agg(encode(hash, 'hex'), '' ORDER BY seq))
FROM entries WHERE chain = ? AND seq >= ?;

-- newest_mentioning: the latest entry of one kind whose payload holds some bytes
SELECT chain, seq, at_us, kind, id, ref, payload, attached, prev, hash
FROM entries WHERE kind = ? AND position(?::bytea in payload) > 0
ORDER BY at_us DESC, chain DESC, seq DESC LIMIT 1;
