-- What a member of tenants reads of the pods that bear the member's name: allocation until now, and use in the hours that
-- are measured. The service says for each transaction whose token it checked. Nobody but the owner may read the view.
CREATE VIEW own_pod AS
    SELECT
        pod.tenant, pod.namespace, pod.name, pod.kind, pod.starts, pod.ends,
        pod.cpus, pod.memory_bytes / 2 ^ 30 AS memory_gib, pod.cards, pod.card,
        allocated.hours * pod.cpus AS cpu_hours,
        allocated.hours * pod.memory_bytes / 2 ^ 30 AS memory_gib_hours,
        allocated.hours * pod.cards AS card_hours,
        used.cpu_hours AS cpu_hours_used,
        used.card_hours AS card_hours_busy
    FROM pod
    CROSS JOIN LATERAL (
        SELECT seconds_within(pod.starts, pod.ends, pod.starts, now()) / 3600 AS hours
    ) AS allocated
    CROSS JOIN LATERAL (
        SELECT sum(cpu_seconds) / 3600 AS cpu_hours, sum(card_busy_seconds) / 3600 AS card_hours
        FROM pod_usage WHERE pod_usage.uid = pod.uid
    ) AS used
    WHERE pod.tenant = ANY (string_to_array(current_setting('accounting.tenants', true), ','))
        AND pod.username = current_setting('accounting.username', true);
