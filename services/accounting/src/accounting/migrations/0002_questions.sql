-- The questions, for any window [window_from, window_to); nothing later than now counts.
-- Functions and views run with the rights of the caller, so that row-level security holds through them.

-- Compiling takes longer than the questions do: a year of 100 users in 1.3 s instead of 3.1 s.
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET jit = off', current_database()); END; $$;

CREATE FUNCTION seconds_within(
    starts timestamptz, ends timestamptz, window_from timestamptz, window_to timestamptz
) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN greatest(
    0::double precision,
    extract(epoch FROM least(coalesce(ends, 'infinity'), window_to) - greatest(starts, window_from))::double precision
);

-- The months (UTC) of a window, cut at its ends.
CREATE FUNCTION months(window_from timestamptz, window_to timestamptz)
RETURNS TABLE (month date, month_from timestamptz, month_to timestamptz) LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        first::date,
        greatest(first AT TIME ZONE 'UTC', window_from),
        least((first + interval '1 month') AT TIME ZONE 'UTC', window_to, now())
    FROM generate_series(
        date_trunc('month', window_from AT TIME ZONE 'UTC'),
        (least(window_to, now()) AT TIME ZONE 'UTC') - interval '1 microsecond',
        interval '1 month'
    ) AS first
    WHERE window_from < least(window_to, now());
END;

-- 1. How were the resources allocated? level: node is what the cluster offers, instance the cloud's projects, pod the
-- cluster's tenants; the platform's own pods have no holder.
CREATE FUNCTION allocation(window_from timestamptz, window_to timestamptz, only_tenant text DEFAULT NULL)
RETURNS TABLE (
    month date, level text, holder text,
    cpu_hours double precision, memory_gib_hours double precision, card_hours double precision
) LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        months.month,
        held.level,
        held.holder,
        sum(hours * held.cpus),
        sum(hours * held.memory_bytes) / 2 ^ 30,
        sum(hours * held.cards)
    FROM months(window_from, window_to)
    JOIN (
        SELECT 'node' AS level, NULL AS holder, cpus, memory_bytes, cards, starts, ends
        FROM node WHERE only_tenant IS NULL
        UNION ALL
        SELECT 'instance', project, cpus, memory_bytes, cards, starts, ends
        FROM instance WHERE only_tenant IS NULL OR project = only_tenant
        UNION ALL
        SELECT 'pod', tenant, cpus, memory_bytes, cards, starts, ends
        FROM pod WHERE only_tenant IS NULL OR tenant = only_tenant
    ) AS held ON tstzrange(held.starts, held.ends) && tstzrange(months.month_from, months.month_to)
    CROSS JOIN LATERAL (
        SELECT seconds_within(held.starts, held.ends, months.month_from, months.month_to) / 3600 AS hours
    ) AS counted
    GROUP BY months.month, held.level, held.holder;
END;

-- Hours of pods with their usage: what was allocated in the part of the hour that the pod ran.
CREATE FUNCTION measured_hours(window_from timestamptz, window_to timestamptz, only_tenant text DEFAULT NULL)
RETURNS TABLE (
    uid uuid, tenant text, kind text, hour timestamptz, hours double precision,
    cpus double precision, memory_bytes bigint, cards integer,
    cpu_seconds double precision, memory_bytes_mean double precision, memory_bytes_peak double precision,
    card_busy_seconds double precision
) LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        pod.uid, pod.tenant, pod.kind, pod_usage.hour,
        seconds_within(pod.starts, pod.ends, pod_usage.hour, pod_usage.hour + interval '1 hour') / 3600,
        pod.cpus, pod.memory_bytes, pod.cards,
        pod_usage.cpu_seconds, pod_usage.memory_bytes_mean, pod_usage.memory_bytes_peak, pod_usage.card_busy_seconds
    FROM pod_usage
    JOIN pod USING (uid)
    WHERE pod_usage.hour >= window_from
        AND pod_usage.hour < window_to
        AND (only_tenant IS NULL OR pod.tenant = only_tenant);
END;

-- 2. Are the allocated resources used or idle? Only hours with measurements can tell; cards without a figure for
-- their load count as not measured.
CREATE FUNCTION utilisation(window_from timestamptz, window_to timestamptz, only_tenant text DEFAULT NULL)
RETURNS TABLE (
    month date, tenant text,
    cpu_hours double precision, cpu_hours_measured double precision, cpu_hours_used double precision,
    memory_gib_hours double precision, memory_gib_hours_measured double precision, memory_gib_hours_used double precision,
    card_hours double precision, card_hours_measured double precision, card_hours_busy double precision
) LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH measured AS (
        SELECT
            date_trunc('month', hour AT TIME ZONE 'UTC')::date AS month,
            tenant,
            sum(hours * cpus) AS cpu_hours,
            sum(cpu_seconds) / 3600 AS cpu_hours_used,
            sum(hours * memory_bytes) / 2 ^ 30 AS memory_gib_hours,
            sum(hours * memory_bytes_mean) / 2 ^ 30 AS memory_gib_hours_used,
            sum(hours * cards) FILTER (WHERE card_busy_seconds IS NOT NULL) AS card_hours,
            sum(card_busy_seconds) / 3600 AS card_hours_busy
        FROM measured_hours(window_from, window_to, only_tenant)
        GROUP BY 1, 2
    )
    SELECT
        allocated.month,
        allocated.holder,
        allocated.cpu_hours,
        coalesce(measured.cpu_hours, 0),
        coalesce(measured.cpu_hours_used, 0),
        allocated.memory_gib_hours,
        coalesce(measured.memory_gib_hours, 0),
        coalesce(measured.memory_gib_hours_used, 0),
        allocated.card_hours,
        coalesce(measured.card_hours, 0),
        coalesce(measured.card_hours_busy, 0)
    FROM allocation(window_from, window_to, only_tenant) AS allocated
    LEFT JOIN measured
        ON measured.month = allocated.month AND measured.tenant IS NOT DISTINCT FROM allocated.holder
    WHERE allocated.level = 'pod';
END;

-- The pods that left their cards idle the longest.
CREATE FUNCTION idle_cards(window_from timestamptz, window_to timestamptz, only_tenant text DEFAULT NULL)
RETURNS TABLE (
    tenant text, username text, namespace text, name text, starts timestamptz, ends timestamptz,
    card_hours_measured double precision, card_hours_idle double precision
) LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT pod.tenant, pod.username, pod.namespace, pod.name, pod.starts, pod.ends, measured.card_hours, measured.idle
    FROM (
        SELECT uid, sum(hours * cards) AS card_hours, sum(hours * cards - card_busy_seconds / 3600) AS idle
        FROM measured_hours(window_from, window_to, only_tenant)
        WHERE cards > 0 AND card_busy_seconds IS NOT NULL
        GROUP BY uid
    ) AS measured
    JOIN pod USING (uid)
    WHERE measured.idle > 0
    ORDER BY measured.idle DESC, pod.uid
    LIMIT 20;
END;

CREATE FUNCTION energy(window_from timestamptz, window_to timestamptz)
RETURNS TABLE (month date, node text, card text, kwh double precision) LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT date_trunc('month', hour AT TIME ZONE 'UTC')::date, node, card, sum(joules) / 3.6e6
    FROM card_energy
    WHERE hour >= window_from AND hour < window_to
    GROUP BY 1, 2, 3;
END;

-- 3. Who uses the platform, to do what? A pod counts as one task; jobs of the batch system run inside pods of the kind
-- batch, so that the two levels are not to be added up.
CREATE FUNCTION work(window_from timestamptz, window_to timestamptz, only_tenant text DEFAULT NULL)
RETURNS TABLE (
    level text, tenant text, username text, kind text, tasks bigint, hours double precision,
    cpu_hours double precision, memory_gib_hours double precision, card_hours double precision
) LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        task.level, task.tenant, task.username, task.kind, count(*),
        sum(counted.hours),
        sum(counted.hours * task.cpus),
        sum(counted.hours * task.memory_bytes) / 2 ^ 30,
        sum(counted.hours * task.cards)
    FROM (
        SELECT 'pod' AS level, tenant, username, kind, cpus, memory_bytes, cards, starts, ends FROM pod
        UNION ALL
        SELECT 'job', tenant, username, 'batch', cpus, memory_bytes, cards, starts, ends FROM job
        WHERE starts IS NOT NULL
    ) AS task
    CROSS JOIN LATERAL (
        SELECT seconds_within(task.starts, task.ends, window_from, least(window_to, now())) / 3600 AS hours
    ) AS counted
    WHERE tstzrange(task.starts, task.ends) && tstzrange(window_from, greatest(window_from, least(window_to, now())))
        AND (only_tenant IS NULL OR task.tenant = only_tenant)
    GROUP BY task.level, task.tenant, task.username, task.kind;
END;

-- How far could CPU and memory of a task with one card shrink? The request against the highest hour of each task:
-- what 50 and 95 percent of the tasks never exceeded.
CREATE FUNCTION one_card_tasks(window_from timestamptz, window_to timestamptz, only_tenant text DEFAULT NULL)
RETURNS TABLE (
    tenant text, kind text, tasks bigint,
    cpus_requested double precision, cpus_p50 double precision, cpus_p95 double precision,
    memory_gib_requested double precision, memory_gib_p50 double precision, memory_gib_p95 double precision
) LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH task AS (
        SELECT
            tenant, kind, cpus, memory_bytes,
            -- minutes at the ends of a pod say little about what it needs
            max(cpu_seconds / (hours * 3600)) FILTER (WHERE hours >= 1.0 / 60) AS cpus_peak,
            max(memory_bytes_peak) AS memory_bytes_peak
        FROM measured_hours(window_from, window_to, only_tenant)
        WHERE cards = 1
        GROUP BY uid, tenant, kind, cpus, memory_bytes
    )
    SELECT
        tenant, kind, count(*),
        avg(cpus),
        percentile_disc(0.5) WITHIN GROUP (ORDER BY cpus_peak),
        percentile_disc(0.95) WITHIN GROUP (ORDER BY cpus_peak),
        avg(memory_bytes)::double precision / 2 ^ 30,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY memory_bytes_peak) / 2 ^ 30,
        percentile_disc(0.95) WITHIN GROUP (ORDER BY memory_bytes_peak) / 2 ^ 30
    FROM task
    GROUP BY tenant, kind;
END;

-- Sessions are notebooks; most of them at one time.
CREATE FUNCTION sessions(window_from timestamptz, window_to timestamptz, only_tenant text DEFAULT NULL)
RETURNS TABLE (month date, users bigint, sessions bigint, most_at_once bigint) LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH session AS (
        SELECT
            months.month, pod.uid, pod.tenant, pod.username,
            greatest(pod.starts, months.month_from) AS starts,
            least(coalesce(pod.ends, 'infinity'), months.month_to) AS ends
        FROM months(window_from, window_to)
        JOIN pod
            ON pod.kind = 'notebook'
            AND (only_tenant IS NULL OR pod.tenant = only_tenant)
            AND tstzrange(pod.starts, pod.ends) && tstzrange(months.month_from, months.month_to)
    ),
    change AS (
        SELECT month, starts AS at, 1 AS step FROM session
        UNION ALL
        SELECT month, ends, -1 FROM session
    ),
    running AS (
        SELECT month, sum(step) OVER (PARTITION BY month ORDER BY at, step) AS at_once FROM change
    ),
    peak AS (SELECT month, max(at_once) AS most FROM running GROUP BY month)
    SELECT session.month, count(DISTINCT (session.tenant, session.username)), count(*), max(peak.most)
    FROM session JOIN peak USING (month)
    GROUP BY session.month;
END;

-- The three questions over the last year, for those who come with psql.
CREATE VIEW how_allocated WITH (security_invoker = true) AS
    SELECT * FROM allocation(now() - interval '1 year', now());
CREATE VIEW used_or_idle WITH (security_invoker = true) AS
    SELECT * FROM utilisation(now() - interval '1 year', now());
CREATE VIEW who_does_what WITH (security_invoker = true) AS
    SELECT * FROM work(now() - interval '1 year', now());
