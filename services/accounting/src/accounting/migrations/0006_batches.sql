-- Batches of jobs: what their owner submitted under one name (HTCondor's batch_name), as the steps of a workflow.

ALTER TABLE job ADD COLUMN batch text;
ALTER TABLE job ADD COLUMN received_bytes bigint CHECK (received_bytes >= 0);
COMMENT ON COLUMN job.received_bytes IS 'the files that the job got, of all its runs';

-- Of the jobs that ended in the window: how many, what they held at most at one time, and for how long.
CREATE FUNCTION batches(window_from timestamptz, window_to timestamptz, only_tenant text DEFAULT NULL)
RETURNS TABLE (
    tenant text, username text, batch text, tasks bigint, tasks_at_once bigint,
    cpus_at_once double precision, cards_at_once bigint, memory_gib_at_once double precision,
    received_gib double precision, cpu_hours_used double precision, starts timestamptz, ends timestamptz
) LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH task AS (
        SELECT tenant, username, batch, cpus, memory_bytes, cards, cpu_seconds, received_bytes, starts, ends FROM job
        WHERE batch IS NOT NULL
            AND tenant IS NOT NULL
            AND starts IS NOT NULL
            AND ends > window_from
            AND ends <= window_to
            AND (only_tenant IS NULL OR tenant = only_tenant)
    ),
    change AS (
        SELECT tenant, username, batch, starts AS at, 1 AS step, cpus, memory_bytes, cards FROM task
        UNION ALL
        -- HTCondor counts whole seconds: one that ended within its first held its cards too
        SELECT tenant, username, batch, greatest(ends, starts + interval '1 second'), -1, cpus, memory_bytes, cards
        FROM task
    ),
    running AS (
        SELECT
            tenant, username, batch,
            sum(step) OVER so_far AS tasks,
            sum(step * cpus) OVER so_far AS cpus,
            sum(step * memory_bytes) OVER so_far AS memory_bytes,
            sum(step * cards) OVER so_far AS cards
        FROM change
        WINDOW so_far AS (PARTITION BY tenant, username, batch ORDER BY at, step)
    ),
    peak AS (
        SELECT
            tenant, username, batch,
            max(tasks) AS tasks, max(cpus) AS cpus, max(memory_bytes) AS memory_bytes, max(cards) AS cards
        FROM running
        GROUP BY tenant, username, batch
    )
    SELECT
        task.tenant, task.username, task.batch, count(*), max(peak.tasks),
        max(peak.cpus), max(peak.cards), max(peak.memory_bytes)::double precision / 2 ^ 30,
        coalesce(sum(task.received_bytes), 0)::double precision / 2 ^ 30,
        coalesce(sum(task.cpu_seconds), 0) / 3600,
        min(task.starts), max(task.ends)
    FROM task
    JOIN peak USING (tenant, username, batch)
    GROUP BY task.tenant, task.username, task.batch;
END;
