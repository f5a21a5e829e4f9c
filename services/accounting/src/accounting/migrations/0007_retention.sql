-- Until when records were removed because of their age; answers about earlier times are incomplete.
CREATE TABLE removed (
    record text PRIMARY KEY CHECK (record IN ('usage', 'records', 'measurements')),
    before timestamptz NOT NULL
);
ALTER TABLE removed ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON removed FOR SELECT USING (true);
GRANT SELECT ON removed TO PUBLIC;

-- The owner, on whom security is forced, removes old measurements in transactions that say so, and no others.
CREATE POLICY read_old ON measurement FOR SELECT TO CURRENT_USER
    USING (at < nullif(current_setting('accounting.remove_before', true), '')::timestamptz);
CREATE POLICY remove_old ON measurement FOR DELETE TO CURRENT_USER
    USING (at < nullif(current_setting('accounting.remove_before', true), '')::timestamptz);
CREATE INDEX measurement_time ON measurement (at);

-- What ended before a time cannot be in the answer about a later one; what runs across it stays whole.
CREATE FUNCTION remove_before(usage_before timestamptz, records_before timestamptz, measurements_before timestamptz)
RETURNS TABLE (record text, rows bigint) LANGUAGE plpgsql
AS $$
DECLARE
    gone bigint;
    total bigint := 0;
BEGIN
    DELETE FROM pod_usage WHERE hour < usage_before;
    GET DIAGNOSTICS gone = ROW_COUNT;
    total := gone;
    DELETE FROM card_energy WHERE hour < usage_before;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN QUERY SELECT 'usage', total + gone;

    total := 0;
    DELETE FROM pod_usage USING pod WHERE pod.uid = pod_usage.uid AND pod.ends <= records_before;
    DELETE FROM pod WHERE ends <= records_before;
    GET DIAGNOSTICS gone = ROW_COUNT;
    total := total + gone;
    DELETE FROM job WHERE ends <= records_before;
    GET DIAGNOSTICS gone = ROW_COUNT;
    total := total + gone;
    DELETE FROM instance WHERE ends <= records_before;
    GET DIAGNOSTICS gone = ROW_COUNT;
    total := total + gone;
    DELETE FROM node WHERE ends <= records_before;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN QUERY SELECT 'records', total + gone;

    gone := 0;
    IF measurements_before IS NOT NULL THEN
        PERFORM set_config('accounting.remove_before', measurements_before::text, true);
        DELETE FROM measurement WHERE at < measurements_before;
        GET DIAGNOSTICS gone = ROW_COUNT;
        PERFORM set_config('accounting.remove_before', '', true);
    END IF;
    RETURN QUERY SELECT 'measurements', gone;

    INSERT INTO removed (record, before)
    SELECT given.record, given.before
    FROM (VALUES ('usage', usage_before), ('records', records_before), ('measurements', measurements_before))
        AS given (record, before)
    WHERE given.before IS NOT NULL
    ON CONFLICT ON CONSTRAINT removed_pkey DO UPDATE SET before = EXCLUDED.before
        WHERE removed.before < EXCLUDED.before;
END;
$$;
REVOKE EXECUTE ON FUNCTION remove_before FROM PUBLIC;
