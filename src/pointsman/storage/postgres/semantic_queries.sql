-- is_made: whether there is a table to ask
SELECT 1 WHERE to_regclass('versions') IS NOT NULL;
