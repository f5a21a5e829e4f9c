-- What was allocated, when, to what; and what was used.
-- Intervals are half open, [starts, ends); a row without an end is still running.

CREATE EXTENSION IF NOT EXISTS btree_gist;  -- a trusted extension: the database's owner may create it

-- Until when each collector has seen everything.
CREATE TABLE collection (
    source text PRIMARY KEY,
    at timestamptz NOT NULL
);

-- nova's instances; a resized instance has a row for each flavor.
CREATE TABLE instance (
    instance_id uuid NOT NULL,
    project text NOT NULL,
    name text NOT NULL,
    flavor text NOT NULL,
    cpus integer NOT NULL CHECK (cpus >= 0),
    memory_bytes bigint NOT NULL CHECK (memory_bytes >= 0),
    cards integer NOT NULL CHECK (cards >= 0),
    card text,
    starts timestamptz NOT NULL,
    ends timestamptz CHECK (ends >= starts),
    PRIMARY KEY (instance_id, starts),
    EXCLUDE USING gist (instance_id WITH =, tstzrange(starts, ends) WITH &&)
);
CREATE INDEX instance_during ON instance USING gist (tstzrange(starts, ends));

-- What the cluster's nodes offer; a row for each size that a node had.
CREATE TABLE node (
    name text NOT NULL,
    cpus double precision NOT NULL CHECK (cpus >= 0),
    memory_bytes bigint NOT NULL CHECK (memory_bytes >= 0),
    cards integer NOT NULL CHECK (cards >= 0),
    card text,
    starts timestamptz NOT NULL,
    ends timestamptz CHECK (ends >= starts),
    PRIMARY KEY (name, starts),
    EXCLUDE USING gist (name WITH =, tstzrange(starts, ends) WITH &&)
);

-- Pods with a node, from the moment that the scheduler gave it to them. tenant is null for the platform's own.
CREATE TABLE pod (
    uid uuid PRIMARY KEY,
    tenant text,
    username text,
    kind text NOT NULL CHECK (kind IN ('notebook', 'batch', 'dask', 'pod')),
    namespace text NOT NULL,
    name text NOT NULL,
    node text NOT NULL,
    cpus double precision NOT NULL CHECK (cpus >= 0),
    memory_bytes bigint NOT NULL CHECK (memory_bytes >= 0),
    cards integer NOT NULL CHECK (cards >= 0),
    card text,
    starts timestamptz NOT NULL,
    ends timestamptz CHECK (ends >= starts),
    -- the pod ended while no collector ran: ends is when it was last known to run
    end_estimated boolean NOT NULL DEFAULT false
);
CREATE INDEX pod_during ON pod USING gist (tstzrange(starts, ends));
CREATE INDEX pod_running ON pod (uid) WHERE ends IS NULL;
CREATE INDEX pod_name ON pod (namespace, name);

-- What a pod used in one hour, from Prometheus.
CREATE TABLE pod_usage (
    uid uuid NOT NULL REFERENCES pod,
    hour timestamptz NOT NULL CHECK (hour = date_trunc('hour', hour, 'UTC')),
    cpu_seconds double precision NOT NULL CHECK (cpu_seconds >= 0),
    memory_bytes_mean double precision NOT NULL CHECK (memory_bytes_mean >= 0),
    memory_bytes_peak double precision NOT NULL CHECK (memory_bytes_peak >= 0),
    card_busy_seconds double precision CHECK (card_busy_seconds >= 0),
    PRIMARY KEY (uid, hour)
);
CREATE INDEX pod_usage_hour ON pod_usage (hour);

-- Energy that a card took in one hour.
CREATE TABLE card_energy (
    card text NOT NULL,
    hour timestamptz NOT NULL CHECK (hour = date_trunc('hour', hour, 'UTC')),
    node text NOT NULL,
    joules double precision NOT NULL CHECK (joules >= 0),
    PRIMARY KEY (card, hour)
);

-- Jobs of the batch system, by its own global id: a history that is read twice adds nothing.
CREATE TABLE job (
    global_job_id text PRIMARY KEY,
    tenant text,
    username text NOT NULL,
    cpus double precision NOT NULL CHECK (cpus >= 0),
    memory_bytes bigint NOT NULL CHECK (memory_bytes >= 0),
    cards integer NOT NULL CHECK (cards >= 0),
    card text,
    submitted timestamptz NOT NULL,
    starts timestamptz,
    ends timestamptz CHECK (ends >= starts),
    cpu_seconds double precision,
    memory_bytes_peak bigint,
    exit_code integer
);
CREATE INDEX job_during ON job USING gist (tstzrange(starts, ends)) WHERE starts IS NOT NULL;
