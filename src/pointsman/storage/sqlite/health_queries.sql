-- read: the value
SELECT body FROM health;

-- write: replace the value
INSERT INTO health (one, body) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET body = excluded.body;
