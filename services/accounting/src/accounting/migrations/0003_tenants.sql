-- A role of a tenant reads that tenant's rows and no others. Roles are PostgreSQL's, made by its administrator;
-- the owner of the database says here whose they are. Settings of a session, which anybody may change, decide nothing.

CREATE TABLE reader (
    role name PRIMARY KEY,
    tenant text NOT NULL
);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'collection', 'instance', 'node', 'pod', 'pod_usage', 'card_energy', 'job', 'reader'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    END LOOP;
END;
$$;

CREATE POLICY own ON reader FOR SELECT USING (role = current_user);
CREATE POLICY own ON pod FOR SELECT USING (tenant = ANY (ARRAY(SELECT reader.tenant FROM reader)));
CREATE POLICY own ON job FOR SELECT USING (tenant = ANY (ARRAY(SELECT reader.tenant FROM reader)));
CREATE POLICY own ON instance FOR SELECT USING (project = ANY (ARRAY(SELECT reader.tenant FROM reader)));
CREATE POLICY own ON pod_usage FOR SELECT USING (uid IN (SELECT pod.uid FROM pod));
-- collection, node and card_energy have no policy: they are the site's

GRANT SELECT ON
    collection, instance, node, pod, pod_usage, card_energy, job, reader, how_allocated, used_or_idle, who_does_what
TO PUBLIC;
