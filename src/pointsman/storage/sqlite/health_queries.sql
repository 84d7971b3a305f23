-- read: what is known
SELECT body FROM health;

-- write: put what is known now in its place
INSERT INTO health (one, body) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET body = excluded.body;
