-- Batch jobs: where the reading of a history goes on, and their part in the questions.

-- What was the newest entry of a source that is read backwards; null for sources that are read by time.
ALTER TABLE collection ADD COLUMN newest text;

COMMENT ON COLUMN job.starts IS
    'ends less the time of all runs, so that a job waiting between two runs holds nothing; null: it never ran';

-- How far could CPU and memory of a task with one card shrink? A pod counts with its highest hour; a batch job, of
-- which only the sum is known, with its mean CPU and its highest memory, in the window in which it ended.
DROP FUNCTION one_card_tasks(timestamptz, timestamptz, text);
CREATE FUNCTION one_card_tasks(window_from timestamptz, window_to timestamptz, only_tenant text DEFAULT NULL)
RETURNS TABLE (
    level text, tenant text, kind text, tasks bigint,
    cpus_requested double precision, cpus_p50 double precision, cpus_p95 double precision,
    memory_gib_requested double precision, memory_gib_p50 double precision, memory_gib_p95 double precision
) LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH task AS (
        SELECT
            'pod' AS level, tenant, kind, cpus, memory_bytes,
            -- minutes at the ends of a pod say little about what it needs
            max(cpu_seconds / (hours * 3600)) FILTER (WHERE hours >= 1.0 / 60) AS cpus_peak,
            max(memory_bytes_peak) AS memory_bytes_peak
        FROM measured_hours(window_from, window_to, only_tenant)
        WHERE cards = 1
        GROUP BY uid, tenant, kind, cpus, memory_bytes
        UNION ALL
        SELECT
            'job', tenant, 'batch', cpus, memory_bytes,
            cpu_seconds / extract(epoch FROM ends - starts)::double precision,
            memory_bytes_peak
        FROM job
        WHERE cards = 1
            AND starts < ends
            AND cpu_seconds IS NOT NULL
            AND ends > window_from
            AND ends <= window_to
            AND (only_tenant IS NULL OR tenant = only_tenant)
    )
    SELECT
        level, tenant, kind, count(*),
        avg(cpus),
        percentile_disc(0.5) WITHIN GROUP (ORDER BY cpus_peak),
        percentile_disc(0.95) WITHIN GROUP (ORDER BY cpus_peak),
        avg(memory_bytes)::double precision / 2 ^ 30,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY memory_bytes_peak) / 2 ^ 30,
        percentile_disc(0.95) WITHIN GROUP (ORDER BY memory_bytes_peak) / 2 ^ 30
    FROM task
    GROUP BY level, tenant, kind;
END;
