-- Use of the site's models by the hour, as its inference server counts it.
CREATE TABLE model_usage (
    hour timestamptz NOT NULL CHECK (hour = date_trunc('hour', hour, 'UTC')),
    model text NOT NULL,
    tenant text NOT NULL,
    requests bigint NOT NULL CHECK (requests >= 0),
    tokens_in bigint NOT NULL CHECK (tokens_in >= 0),
    tokens_out bigint NOT NULL CHECK (tokens_out >= 0),
    PRIMARY KEY (hour, model, tenant)
);
ALTER TABLE model_usage ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON model_usage FOR SELECT USING (tenant = ANY (ARRAY(SELECT reader.tenant FROM reader)));
GRANT SELECT ON model_usage TO PUBLIC;

-- what a member reads of the use by the member's tenants; the service says for each transaction whose token it checked
CREATE VIEW tenant_model_usage AS
    SELECT hour, tenant, model, requests, tokens_in, tokens_out
    FROM model_usage
    WHERE tenant = ANY (string_to_array(current_setting('accounting.tenants', true), ','));

CREATE FUNCTION models(window_from timestamptz, window_to timestamptz, only_tenant text DEFAULT NULL)
RETURNS TABLE (tenant text, model text, requests bigint, tokens_in bigint, tokens_out bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT tenant, model, sum(requests)::bigint, sum(tokens_in)::bigint, sum(tokens_out)::bigint
    FROM model_usage
    WHERE hour >= window_from AND hour < window_to AND (only_tenant IS NULL OR tenant = only_tenant)
    GROUP BY 1, 2;
END;

-- as before, and the use of models with that of pods
CREATE OR REPLACE FUNCTION remove_before(usage_before timestamptz, records_before timestamptz, measurements_before timestamptz)
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
    total := total + gone;
    DELETE FROM model_usage WHERE hour < usage_before;
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
