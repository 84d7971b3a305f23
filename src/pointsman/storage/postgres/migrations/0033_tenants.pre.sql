-- Which tenant's key spent it; empty without a key.
ALTER TABLE pointsman_spend.spent ADD COLUMN tenant TEXT COLLATE "C" NOT NULL DEFAULT '';

CREATE INDEX spent_by_tenant ON pointsman_spend.spent (tenant, day) WHERE tenant <> '';

CREATE OR REPLACE FUNCTION pointsman_shared.spent(
    p_each TEXT, p_key TEXT, p_owner TEXT, p_first BIGINT, p_end BIGINT
) RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
DECLARE
    total NUMERIC;
BEGIN
    IF p_each = 'all' THEN
        SELECT sum(cost_microusd) INTO total FROM pointsman_spend.spent
            WHERE day >= p_first AND day < p_end;
    ELSIF p_each = 'key' THEN
        SELECT sum(cost_microusd) INTO total FROM pointsman_spend.spent
            WHERE key_id = p_key AND day >= p_first AND day < p_end;
    ELSIF p_each = 'session' THEN
        SELECT sum(cost_microusd) INTO total FROM pointsman_spend.spent
            WHERE session_id = p_owner AND key_id = p_key AND day >= p_first AND day < p_end;
    ELSIF p_each = 'tenant' THEN
        SELECT sum(cost_microusd) INTO total FROM pointsman_spend.spent
            WHERE tenant = p_owner AND tenant <> '' AND day >= p_first AND day < p_end;
    ELSE
        SELECT sum(cost_microusd) INTO total FROM pointsman_spend.spent
            WHERE workspace = p_owner AND day >= p_first AND day < p_end;
    END IF;
    RETURN coalesce(total, 0);
END $$;
