-- chain_hashes: the hashes of a chain's entries in order, from one on, as one text
SELECT upper(string_agg(encode(hash, 'hex'), '' ORDER BY seq))
FROM entries WHERE chain = ? AND seq >= ?;
