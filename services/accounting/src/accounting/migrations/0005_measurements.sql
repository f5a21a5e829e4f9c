-- What users measured themselves, sent with their tokens. Nobody changes or removes a row.
CREATE TABLE measurement (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    username text NOT NULL,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    value double precision NOT NULL,
    unit text NOT NULL DEFAULT '' CHECK (length(unit) <= 50),
    at timestamptz NOT NULL DEFAULT now(),
    labels jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object')
);
CREATE INDEX measurement_at ON measurement (tenant, at);
CREATE INDEX measurement_name ON measurement (tenant, name, at);

-- The service is the owner, so security is forced on it too. It says for each transaction whose token it checked; only
-- its own role is believed: what others set decides nothing.
ALTER TABLE measurement ENABLE ROW LEVEL SECURITY;
ALTER TABLE measurement FORCE ROW LEVEL SECURITY;
CREATE POLICY read_with_token ON measurement FOR SELECT TO CURRENT_USER
    USING (tenant = ANY (string_to_array(current_setting('accounting.tenants', true), ',')));
CREATE POLICY add_with_token ON measurement FOR INSERT TO CURRENT_USER
    WITH CHECK (
        tenant = ANY (string_to_array(current_setting('accounting.tenants', true), ','))
        AND username = current_setting('accounting.username', true)
    );
-- the owner sees all of the table reader, so the role is compared here too
CREATE POLICY own ON measurement FOR SELECT
    USING (tenant IN (SELECT reader.tenant FROM reader WHERE reader.role = current_user));
GRANT SELECT ON measurement TO PUBLIC;
