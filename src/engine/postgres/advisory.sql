-- Locks of holdfast, recipe advisory. Every name has a row in hf_fence, for ever: its key, which is
-- no other name's, and the last fence that was given out. Whoever holds the advisory lock of that
-- key, or waits for it, has a row in hf_session. Whoever uses locks needs SELECT, INSERT, UPDATE,
-- DELETE on both tables. The functions are called by their version: another version of holdfast
-- brings its own.

CREATE TABLE IF NOT EXISTS hf_fence (
    name bytea PRIMARY KEY,
    fence bigint NOT NULL,
    lock_key bigint NOT NULL UNIQUE
) WITH (fillfactor = 50);

-- fence: 0 of who waits. ends_us: set by the first who had the lock and found this row, whose
-- session was over then: when its lease must have ended.
CREATE TABLE IF NOT EXISTS hf_session (
    name bytea NOT NULL,
    token uuid NOT NULL,
    process integer NOT NULL,
    fence bigint NOT NULL,
    shared boolean NOT NULL,
    broken boolean NOT NULL DEFAULT false,
    lease_us bigint NOT NULL,
    ends_us bigint NOT NULL DEFAULT 0,
    since_us bigint NOT NULL,
    bell text NOT NULL,
    tag text NOT NULL,
    who bytea NOT NULL,
    PRIMARY KEY (name, token)
) WITH (fillfactor = 70, vacuum_truncate = false);

CREATE OR REPLACE FUNCTION hf_advisory_now_1() RETURNS bigint LANGUAGE sql VOLATILE AS $body$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$body$;

-- For other programs: the key of a name, unless lock_key= gives another.
CREATE OR REPLACE FUNCTION hf_advisory_key_1(lock_name bytea) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $body$
    SELECT ('x' || encode(substr(sha256(convert_to('hf_', 'UTF8') || lock_name), 1, 8), 'hex'))
        ::bit(64)::bigint
$body$;

-- Who holds such a lock of this database, and who waits for it.
CREATE OR REPLACE FUNCTION hf_advisory_locks_1()
RETURNS TABLE (its_key bigint, its_process integer, is_granted boolean, is_shared boolean,
    waits_since timestamptz) LANGUAGE sql VOLATILE AS $body$
    SELECT (l.classid::bigint << 32) | l.objid::bigint, l.pid, l.granted, l.mode = 'ShareLock',
            l.waitstart
        FROM pg_locks AS l WHERE l.locktype = 'advisory' AND l.objsubid = 1
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
$body$;

-- The name and the key belong together, and to no others.
CREATE OR REPLACE FUNCTION hf_advisory_meet_1(lock_name bytea, own_key bigint)
RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    met hf_fence;
BEGIN
    SELECT * INTO met FROM hf_fence WHERE name = lock_name;
    IF NOT FOUND THEN
        INSERT INTO hf_fence VALUES (lock_name, 0, own_key) ON CONFLICT DO NOTHING;
        SELECT * INTO met FROM hf_fence WHERE name = lock_name;
    END IF;
    IF met.lock_key IS DISTINCT FROM own_key THEN
        RAISE EXCEPTION 'key % of this name is %', own_key,
            coalesce('not the one it had before, ' || met.lock_key, 'another name''s')
            USING ERRCODE = 'HF003';
    END IF;
END
$body$;

-- The kind, how many are ahead, how many of them wait, three numbers that mean nothing here, the
-- holder's fence, and who that is.
CREATE OR REPLACE FUNCTION hf_advisory_busy_1(kind text, lock_name bytea, ahead bigint)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    held hf_session;
BEGIN
    SELECT * INTO held FROM hf_session WHERE name = lock_name AND fence > 0
        ORDER BY fence LIMIT 1;
    RETURN kind || ' ' || ahead || ' 1 0 0 ' || coalesce(held.fence, 0) || ' '
        || coalesce(encode(held.who, 'hex'), '');
END
$body$;

-- The session has the lock. Whoever is written down as holding it has died with its session, and
-- may believe in its lease until that must have ended: "wait" and for how many ms. The row of
-- somebody who is just leaving is locked, and gone when that is over.
CREATE OR REPLACE FUNCTION hf_advisory_enter_1(lock_name bytea, own_key bigint, mine uuid,
    sharing boolean, lease bigint, idle text, contended boolean, my_bell text, my_tag text,
    my_who bytea)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    instant bigint;
    until bigint := 0;
    given bigint;
    waiting bigint := 0;
    dead hf_session;
BEGIN
    FOR dead IN SELECT * FROM hf_session WHERE name = lock_name AND token <> mine AND fence > 0
        AND NOT (sharing AND shared) FOR UPDATE LOOP
        instant := hf_advisory_now_1();
        IF dead.ends_us = 0 OR dead.ends_us > instant + dead.lease_us THEN
            dead.ends_us := instant + dead.lease_us;
            UPDATE hf_session SET ends_us = dead.ends_us
                WHERE name = lock_name AND token = dead.token;
        END IF;
        IF dead.ends_us <= instant THEN
            DELETE FROM hf_session WHERE name = lock_name AND token = dead.token;
        ELSE
            until := greatest(until, dead.ends_us - instant);
        END IF;
    END LOOP;
    IF until > 0 THEN
        PERFORM set_config('synchronous_commit', 'off', true);
        RETURN 'wait ' || (until + 999) / 1000;
    END IF;
    PERFORM set_config('idle_session_timeout', idle, false);
    IF contended THEN
        SELECT count(*) INTO waiting FROM hf_advisory_locks_1()
            WHERE its_key = own_key AND NOT is_granted;
        DELETE FROM hf_session AS s WHERE s.name = lock_name AND s.fence = 0 AND s.token <> mine
            AND NOT EXISTS (SELECT FROM pg_stat_activity AS a WHERE a.pid = s.process);
    END IF;
    UPDATE hf_fence SET fence = fence + 256 WHERE name = lock_name AND lock_key = own_key
        AND fence < 4611686018427387904 - 256 RETURNING fence INTO given;
    IF NOT FOUND THEN -- who tried first, for whom this one waited, came too late to write it down
        PERFORM hf_advisory_meet_1(lock_name, own_key);
        UPDATE hf_fence SET fence = fence + 256 WHERE name = lock_name
            AND fence < 4611686018427387904 - 256 RETURNING fence INTO given;
    END IF;
    IF given IS NULL THEN
        RAISE EXCEPTION 'the fences are used up' USING ERRCODE = 'HF002';
    END IF;
    INSERT INTO hf_session VALUES (lock_name, mine, pg_backend_pid(), given, sharing, false, lease,
            0, hf_advisory_now_1(), my_bell, my_tag, my_who)
        ON CONFLICT (name, token) DO UPDATE SET process = pg_backend_pid(), fence = given,
            shared = sharing, broken = false, lease_us = lease, ends_us = 0,
            since_us = excluded.since_us;
    RETURN 'granted ' || given || CASE WHEN waiting > 0 THEN ' 1' ELSE ' 0' END;
END
$body$;

-- Take it if it is free. contended: another reader of this session has it already, so that the
-- server would let this one pass writers who wait.
CREATE OR REPLACE FUNCTION hf_advisory_try_1(lock_name bytea, own_key bigint, mine uuid,
    sharing boolean, lease bigint, idle text, contended boolean, my_bell text, my_tag text,
    my_who bytea, latest bigint)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    answer text;
    taken boolean;
BEGIN
    IF hf_advisory_now_1() > latest THEN -- whoever sent this has given up long ago
        RETURN 'stale';
    END IF;
    PERFORM hf_advisory_meet_1(lock_name, own_key);
    IF contended AND EXISTS (SELECT FROM hf_advisory_locks_1()
        WHERE its_key = own_key AND NOT is_granted AND NOT is_shared) THEN
        taken := false;
    ELSIF sharing THEN
        taken := pg_try_advisory_lock_shared(own_key);
    ELSE
        taken := pg_try_advisory_lock(own_key);
    END IF;
    IF taken THEN
        answer := hf_advisory_enter_1(lock_name, own_key, mine, sharing, lease, idle, false,
            my_bell, my_tag, my_who);
        IF answer LIKE 'granted %' THEN
            RETURN answer;
        END IF;
        IF sharing THEN
            PERFORM pg_advisory_unlock_shared(own_key);
        ELSE
            PERFORM pg_advisory_unlock(own_key);
        END IF;
    END IF;
    RETURN hf_advisory_busy_1('refused', lock_name, 1);
END
$body$;

-- Stand in line; the answer comes when it is ours. Whoever stands still then does not keep it.
CREATE OR REPLACE FUNCTION hf_advisory_wait_1(own_key bigint, sharing boolean, idle text)
RETURNS text LANGUAGE plpgsql AS $body$
BEGIN
    PERFORM set_config('idle_session_timeout', idle, false);
    IF sharing THEN
        PERFORM pg_advisory_lock_shared(own_key);
    ELSE
        PERFORM pg_advisory_lock(own_key);
    END IF;
    RETURN 'locked';
END
$body$;

-- Does that session of ours stand in line? Those who hold the lock hear that others wait.
CREATE OR REPLACE FUNCTION hf_advisory_look_1(lock_name bytea, own_key bigint, mine uuid,
    sharing boolean, lease bigint, session integer, my_bell text, my_tag text, my_who bytea)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    since timestamptz;
    ahead bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO hf_session VALUES (lock_name, mine, session, 0, sharing, false, lease, 0,
            hf_advisory_now_1(), my_bell, my_tag, my_who)
        ON CONFLICT (name, token) DO NOTHING;
    SELECT waits_since INTO since FROM hf_advisory_locks_1()
        WHERE its_key = own_key AND its_process = session AND NOT is_granted;
    IF NOT FOUND THEN
        RETURN 'gone';
    END IF;
    SELECT count(*) INTO ahead FROM hf_advisory_locks_1() WHERE its_key = own_key
        AND its_process <> session AND (is_granted OR waits_since <= coalesce(since, 'infinity'));
    PERFORM pg_notify('hf_' || s.bell, 'crowded ' || s.tag) FROM hf_session AS s
        WHERE s.name = lock_name AND s.fence > 0;
    RETURN hf_advisory_busy_1('queued', lock_name, ahead);
END
$body$;

-- It waits no longer.
CREATE OR REPLACE FUNCTION hf_advisory_quit_1(lock_name bytea, mine uuid, session integer)
RETURNS text LANGUAGE plpgsql AS $body$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM hf_session WHERE name = lock_name AND token = mine AND fence = 0;
    PERFORM pg_cancel_backend(session);
    RETURN 'done';
END
$body$;

-- Are they still ours? The session has them; who was broken is told. Only a lease that is another
-- than before is written down.
CREATE OR REPLACE FUNCTION hf_advisory_renew_1(names bytea[], tokens uuid[], leases bigint[],
    idle text)
RETURNS text[] LANGUAGE plpgsql AS $body$
DECLARE
    item record;
    own hf_session;
    answers text[] := array_fill(''::text, ARRAY[cardinality(names)]);
BEGIN
    PERFORM set_config('idle_session_timeout', idle, false);
    FOR item IN SELECT * FROM unnest(names, tokens, leases) WITH ORDINALITY
        AS one (lock_name, mine, lease, place) ORDER BY lock_name LOOP
        SELECT * INTO own FROM hf_session WHERE name = item.lock_name AND token = item.mine
            AND fence > 0 AND process = pg_backend_pid();
        IF NOT FOUND THEN
            answers[item.place] := 'gone';
        ELSIF own.broken THEN
            answers[item.place] := 'gone broken';
        ELSE
            IF own.lease_us <> item.lease THEN
                UPDATE hf_session SET lease_us = item.lease
                    WHERE name = item.lock_name AND token = item.mine;
            END IF;
            answers[item.place] := 'granted ' || own.fence || ' 0';
        END IF;
    END LOOP;
    RETURN answers;
END
$body$;

-- Out. Nobody waits for the disk: a row that comes back with a crash costs others a lease.
CREATE OR REPLACE FUNCTION hf_advisory_leave_1(lock_name bytea, own_key bigint, mine uuid,
    sharing boolean, idle text)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    own hf_session;
    left_it boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM set_config('idle_session_timeout', idle, false);
    DELETE FROM hf_session WHERE name = lock_name AND token = mine RETURNING * INTO own;
    IF sharing THEN
        left_it := pg_advisory_unlock_shared(own_key);
    ELSE
        left_it := pg_advisory_unlock(own_key);
    END IF;
    RETURN CASE WHEN left_it AND own.fence > 0 AND NOT own.broken THEN 'gone 1' ELSE 'gone 0' END;
END
$body$;

-- Of a session that we have lost: nobody need wait for its lease.
CREATE OR REPLACE FUNCTION hf_advisory_forget_1(lock_name bytea, mine uuid)
RETURNS text LANGUAGE plpgsql AS $body$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM hf_session WHERE name = lock_name AND token = mine
        AND process <> pg_backend_pid();
    RETURN 'gone 0';
END
$body$;

-- Exclusive becomes shared: nobody gets in between, for the session has one before it gives up the
-- other.
CREATE OR REPLACE FUNCTION hf_advisory_lower_1(lock_name bytea, own_key bigint, mine uuid)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    own hf_session;
BEGIN
    SELECT * INTO own FROM hf_session WHERE name = lock_name AND token = mine AND fence > 0
        AND process = pg_backend_pid() FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'gone';
    END IF;
    IF own.broken THEN
        RETURN 'gone broken';
    END IF;
    IF NOT own.shared THEN
        UPDATE hf_session SET shared = true WHERE name = lock_name AND token = mine;
        PERFORM pg_advisory_lock_shared(own_key);
        PERFORM pg_advisory_unlock(own_key);
    END IF;
    RETURN 'granted ' || own.fence || ' 0';
END
$body$;

-- The turn with this fence is over: its holder is told, and gives it back.
CREATE OR REPLACE FUNCTION hf_advisory_break_1(lock_name bytea, with_fence bigint)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    own hf_session;
BEGIN
    UPDATE hf_session SET broken = true WHERE name = lock_name AND fence = with_fence
        AND fence > 0 AND NOT broken RETURNING * INTO own;
    IF NOT FOUND THEN
        RETURN 'gone';
    END IF;
    PERFORM pg_notify('hf_' || own.bell, 'broken ' || own.tag);
    RETURN 'done';
END
$body$;

-- Who holds the locks with names from low to high, and who waits for them: also other programs,
-- of whom nothing more is known. What is left of a lease is told to those who may see the session.
CREATE OR REPLACE FUNCTION hf_advisory_list_1(low bytea, high bytea)
RETURNS TABLE (lock_name bytea, rank bigint, shared boolean, lock_fence bigint, left_us bigint,
    age_us bigint, of_whom bytea) LANGUAGE sql VOLATILE AS $body$
    SELECT f.name, CASE WHEN stand.waits THEN row_number() OVER (PARTITION BY f.name, stand.waits
                ORDER BY l.is_granted DESC, l.waits_since) ELSE 0 END,
            l.is_shared, coalesce(s.fence, 0),
            coalesce(s.lease_us - (extract(epoch FROM clock_timestamp() - a.state_change)
                * 1000000)::bigint, -1000),
            coalesce(hf_advisory_now_1() - s.since_us, -1000), coalesce(s.who, '')
        FROM hf_advisory_locks_1() AS l
        JOIN hf_fence AS f ON f.lock_key = l.its_key AND f.name >= low AND f.name <= high
        LEFT JOIN hf_session AS s ON s.name = f.name AND s.process = l.its_process
            AND (s.fence = 0 OR l.is_granted)
        LEFT JOIN pg_stat_activity AS a ON a.pid = l.its_process,
        LATERAL (SELECT NOT l.is_granted OR coalesce(s.fence, 1) = 0 AS waits) AS stand
        ORDER BY 1, 2, 4
$body$;
