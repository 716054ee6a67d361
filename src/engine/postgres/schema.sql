-- Locks of holdfast, recipe queue. Every name has a row in hf_lock, for ever: it carries the last
-- fence that was given out, and the exclusive holder if there is one. Shared holders and those who
-- wait stand in hf_place, and hf_lock counts them. Times are microseconds of the server's clock.
-- Whoever uses locks needs SELECT, INSERT, UPDATE, DELETE on both tables. The functions are called
-- by their version: another version of holdfast brings its own.

CREATE TABLE IF NOT EXISTS hf_lock (
    name bytea PRIMARY KEY,
    fence bigint NOT NULL,
    places integer NOT NULL DEFAULT 0,
    token uuid,
    broken boolean NOT NULL DEFAULT false,
    ends_us bigint NOT NULL DEFAULT 0,
    lease_us bigint NOT NULL DEFAULT 0,
    grace_us bigint NOT NULL DEFAULT 0,
    since_us bigint NOT NULL DEFAULT 0,
    bell text NOT NULL DEFAULT '',
    tag text NOT NULL DEFAULT '',
    who bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 50);

-- fence: 0 of who waits, in the order of the tickets; of a shared holder its own.
CREATE TABLE IF NOT EXISTS hf_place (
    name bytea NOT NULL,
    token uuid NOT NULL,
    ticket bigint NOT NULL,
    fence bigint NOT NULL,
    shared boolean NOT NULL,
    broken boolean NOT NULL DEFAULT false,
    ends_us bigint NOT NULL,
    lease_us bigint NOT NULL,
    grace_us bigint NOT NULL,
    since_us bigint NOT NULL,
    bell text NOT NULL,
    tag text NOT NULL,
    who bytea NOT NULL,
    PRIMARY KEY (name, token)
) WITH (fillfactor = 70, vacuum_truncate = false);

CREATE INDEX IF NOT EXISTS hf_place_order ON hf_place (name, fence, ticket);

CREATE OR REPLACE FUNCTION hf_now_1() RETURNS bigint LANGUAGE sql VOLATILE AS $body$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$body$;

-- Every operation on a lock begins here, and others wait until its transaction has ended: in the
-- order of their coming, which the lock of a row would not promise. Tells the time after that wait.
CREATE OR REPLACE FUNCTION hf_enter_1(lock_name bytea) RETURNS bigint LANGUAGE sql VOLATILE
AS $body$
    SELECT CASE WHEN pg_advisory_xact_lock(
        hashtextextended(encode(lock_name, 'hex'), 5215575683468094575)) IS NOT NULL
        THEN hf_now_1() ELSE 0 END
$body$;

CREATE OR REPLACE FUNCTION hf_granted_1(lock_name bytea, given bigint)
RETURNS text LANGUAGE plpgsql AS $body$
BEGIN
    IF EXISTS (SELECT FROM hf_place WHERE name = lock_name AND fence = 0) THEN
        RETURN 'granted ' || given || ' 1';
    END IF;
    RETURN 'granted ' || given || ' 0';
END
$body$;

-- Lets in whoever is first, and all readers behind a reader. They are told, except the asker, who
-- has it as the answer. What they get lasts as long as they are known to live; they renew it at
-- once. The caller has entered; vacant: the exclusive holder leaves.
CREATE OR REPLACE FUNCTION hf_settle_1(lock_name bytea, asker uuid, vacant boolean, instant bigint)
RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    held hf_lock;
    next hf_place;
    last bigint;
    gone integer := 0;
    dropped integer;
    reading boolean;
BEGIN
    SELECT * INTO held FROM hf_lock WHERE name = lock_name;
    IF held.token IS NOT NULL AND held.ends_us > instant AND NOT vacant THEN
        IF held.ends_us > instant + held.lease_us THEN -- the clock went back
            UPDATE hf_lock SET ends_us = instant + lease_us WHERE name = lock_name;
        END IF;
        RETURN;
    END IF;
    last := held.fence;
    IF held.token IS NOT NULL THEN -- beside whom nobody read
        reading := false;
    END IF;
    WHILE held.places > gone LOOP
        SELECT * INTO next FROM hf_place WHERE name = lock_name AND fence = 0
            ORDER BY ticket LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF next.ends_us <= instant THEN -- not heard of for its own lease: dead
            DELETE FROM hf_place WHERE name = lock_name AND token = next.token;
            gone := gone + 1;
            CONTINUE;
        END IF;
        IF reading IS NULL THEN
            UPDATE hf_place SET ends_us = instant + lease_us
                WHERE name = lock_name AND fence > 0 AND ends_us > instant + lease_us;
            DELETE FROM hf_place WHERE name = lock_name AND fence > 0 AND ends_us <= instant;
            GET DIAGNOSTICS dropped = ROW_COUNT;
            gone := gone + dropped;
            reading := EXISTS (SELECT FROM hf_place WHERE name = lock_name AND fence > 0);
        END IF;
        EXIT WHEN reading AND NOT next.shared;
        last := last + 256;
        IF next.shared THEN
            UPDATE hf_place SET fence = last, since_us = instant,
                ends_us = least(ends_us, instant + lease_us)
                WHERE name = lock_name AND token = next.token;
            reading := true;
        ELSE
            DELETE FROM hf_place WHERE name = lock_name AND token = next.token;
            UPDATE hf_lock SET fence = last, places = places - gone - 1, token = next.token,
                broken = false, ends_us = least(next.ends_us, instant + next.lease_us),
                lease_us = next.lease_us, grace_us = next.grace_us, since_us = instant,
                bell = next.bell, tag = next.tag, who = next.who WHERE name = lock_name;
        END IF;
        IF next.token IS DISTINCT FROM asker THEN -- granted TAG FENCE WAITING
            PERFORM pg_notify('hf_' || next.bell, 'granted ' || next.tag || ' ' || last
                || CASE WHEN next.shared OR held.places - gone > 1 THEN ' 1' ELSE ' 0' END);
        END IF;
        IF NOT next.shared THEN
            RETURN;
        END IF;
    END LOOP;
    IF gone > 0 OR last > held.fence OR held.token IS NOT NULL THEN
        UPDATE hf_lock SET fence = last, places = places - gone, token = NULL, broken = false
            WHERE name = lock_name;
    END IF;
END
$body$;

-- What this token has, with its lease begun anew; NULL: nothing.
CREATE OR REPLACE FUNCTION hf_find_1(lock_name bytea, mine uuid, lease bigint, instant bigint)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    given bigint;
BEGIN
    UPDATE hf_lock SET ends_us = instant + lease
        WHERE name = lock_name AND token = mine AND NOT broken AND ends_us > instant
        RETURNING fence INTO given;
    IF NOT FOUND THEN
        UPDATE hf_place SET ends_us = instant + lease
            WHERE name = lock_name AND token = mine AND fence > 0 AND NOT broken
                AND ends_us > instant
            RETURNING fence INTO given;
    END IF;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN hf_granted_1(lock_name, given);
END
$body$;

-- The kind, how many are ahead, how many of them wait, ms until the holders' leases end, the last
-- fence given out, the holder's, and who that is.
CREATE OR REPLACE FUNCTION hf_busy_1(kind text, lock_name bytea, mine uuid, instant bigint)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    held hf_lock;
    reader hf_place;
    ahead bigint := 1;
    waiting bigint;
BEGIN
    SELECT * INTO held FROM hf_lock WHERE name = lock_name;
    SELECT count(*) INTO waiting FROM hf_place WHERE name = lock_name AND fence = 0
        AND ticket < coalesce((SELECT own.ticket FROM hf_place AS own
            WHERE own.name = lock_name AND own.token = mine), 9223372036854775807);
    reader.fence := held.fence;
    reader.ends_us := held.ends_us;
    reader.who := held.who;
    IF held.token IS NULL THEN
        SELECT count(*) INTO ahead FROM hf_place
            WHERE name = lock_name AND fence > 0 AND ends_us > instant;
        SELECT * INTO reader FROM hf_place
            WHERE name = lock_name AND fence > 0 AND ends_us > instant
            ORDER BY ends_us DESC LIMIT 1;
    END IF;
    RETURN kind || ' ' || ahead + waiting || ' ' || waiting || ' '
        || greatest(coalesce((reader.ends_us - instant + 999) / 1000, 0), 0) || ' ' || held.fence
        || ' ' || coalesce(reader.fence, 0) || ' ' || coalesce(encode(reader.who, 'hex'), '');
END
$body$;

-- Take it, or stand in line for it; once more: where does this token stand? Nearly every claim
-- ends with its first statement.
CREATE OR REPLACE FUNCTION hf_claim_1(lock_name bytea, mine uuid, sharing boolean,
    queueing boolean, lease bigint, grace bigint, latest bigint, my_bell text, my_tag text,
    my_who bytea)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    instant bigint := hf_enter_1(lock_name);
    given bigint;
    answer text;
    held hf_lock;
    own hf_place;
    before bigint;
BEGIN
    IF instant > latest THEN -- whoever sent this has given up long ago
        RETURN 'stale';
    END IF;
    IF NOT sharing THEN
        UPDATE hf_lock SET fence = fence + 256, token = mine, broken = false,
            ends_us = instant + lease, lease_us = lease, grace_us = grace, since_us = instant,
            bell = my_bell, tag = my_tag, who = my_who
            WHERE name = lock_name AND places = 0 AND (token IS NULL OR ends_us <= instant)
                AND fence < 4611686018410610688
            RETURNING fence INTO given;
        IF FOUND THEN
            RETURN 'granted ' || given || ' 0';
        END IF;
    END IF;
    SELECT * INTO held FROM hf_lock WHERE name = lock_name;
    IF NOT FOUND AND NOT sharing THEN
        INSERT INTO hf_lock (name, fence, token, ends_us, lease_us, grace_us, since_us, bell, tag,
                who)
            VALUES (lock_name, 256, mine, instant + lease, lease, grace, instant, my_bell, my_tag,
                my_who);
        RETURN 'granted 256 0';
    ELSIF NOT FOUND THEN
        INSERT INTO hf_lock (name, fence) VALUES (lock_name, 0) RETURNING * INTO held;
    END IF;
    IF held.places > 0 THEN
        SELECT * INTO own FROM hf_place WHERE name = lock_name AND token = mine;
    END IF;
    IF held.token = mine OR own.fence > 0 THEN
        answer := hf_find_1(lock_name, mine, lease, instant);
    END IF;
    IF answer IS NOT NULL THEN
        RETURN answer;
    END IF;
    IF held.fence >= 4611686018410610688 THEN -- 65536 grants before 2^62, for those who wait
        RAISE EXCEPTION 'the fences are used up' USING ERRCODE = 'HF002';
    END IF;
    IF own.broken OR (held.token = mine AND held.broken AND held.ends_us > instant) THEN
        RETURN 'gone broken';
    END IF;
    IF own.fence > 0 THEN -- it held, and its lease has ended
        DELETE FROM hf_place WHERE name = lock_name AND token = mine;
        UPDATE hf_lock SET places = places - 1 WHERE name = lock_name;
        own.token := NULL;
    END IF;
    IF NOT queueing THEN
        PERFORM hf_settle_1(lock_name, NULL, false, instant);
        SELECT * INTO held FROM hf_lock WHERE name = lock_name;
        IF held.token IS NOT NULL OR EXISTS (SELECT FROM hf_place WHERE name = lock_name
            AND (fence = 0 OR (NOT sharing AND ends_us > instant))) THEN
            RETURN hf_busy_1('refused', lock_name, NULL, instant);
        END IF;
    END IF;
    IF held.places > 0 THEN
        SELECT max(ticket) INTO before FROM hf_place WHERE name = lock_name AND fence = 0;
    END IF;
    IF own.token IS NOT NULL THEN
        UPDATE hf_place SET shared = sharing, ends_us = instant + lease, lease_us = lease,
            grace_us = grace, bell = my_bell, tag = my_tag, who = my_who
            WHERE name = lock_name AND token = mine;
    ELSE
        IF held.places >= 65536 THEN
            DELETE FROM hf_place WHERE name = lock_name AND ends_us <= instant;
            GET DIAGNOSTICS given = ROW_COUNT;
            IF held.places - given >= 65536 THEN
                RAISE EXCEPTION 'too many wait' USING ERRCODE = 'HF001';
            END IF;
            UPDATE hf_lock SET places = places - given WHERE name = lock_name;
        END IF;
        given := 0;
        IF sharing AND before IS NULL AND (held.token IS NULL OR held.ends_us <= instant) THEN
            given := held.fence + 256; -- among readers, or into an empty room
        END IF;
        INSERT INTO hf_place VALUES (lock_name, mine, coalesce(before, 0) + 1, given, sharing,
            false, instant + lease, lease, grace, instant, my_bell, my_tag, my_who);
        IF given > 0 THEN
            UPDATE hf_lock SET places = places + 1, fence = given, token = NULL, broken = false
                WHERE name = lock_name;
            RETURN 'granted ' || given || ' 0';
        END IF;
        UPDATE hf_lock SET places = places + 1 WHERE name = lock_name;
    END IF;
    IF held.token IS NOT NULL AND held.ends_us > instant THEN
        IF before IS NULL THEN
            PERFORM pg_notify('hf_' || held.bell, 'crowded ' || held.tag);
        END IF;
    ELSE
        PERFORM hf_settle_1(lock_name, mine, false, instant);
        answer := hf_find_1(lock_name, mine, lease, instant);
        IF answer IS NOT NULL THEN
            RETURN answer;
        END IF;
    END IF;
    RETURN hf_busy_1('queued', lock_name, mine, instant);
END
$body$;

-- Where does this one stand? Who waits is known to live for another lease.
CREATE OR REPLACE FUNCTION hf_refresh_one_1(lock_name bytea, mine uuid, lease bigint)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    instant bigint := hf_enter_1(lock_name);
    answer text;
BEGIN
    answer := hf_find_1(lock_name, mine, lease, instant);
    IF answer IS NULL THEN
        UPDATE hf_place SET lease_us = lease, ends_us = instant + lease
            WHERE name = lock_name AND token = mine AND fence = 0;
        IF NOT FOUND THEN
            RETURN 'gone';
        END IF;
        PERFORM hf_settle_1(lock_name, mine, false, instant);
        answer := coalesce(hf_find_1(lock_name, mine, lease, instant),
            hf_busy_1('queued', lock_name, mine, instant));
    END IF;
    RETURN answer;
END
$body$;

-- It is still ours, and for longer. A lease is shortened only where that was asked for.
CREATE OR REPLACE FUNCTION hf_renew_one_1(lock_name bytea, mine uuid, lease bigint,
    shorten boolean)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    held hf_lock;
    own hf_place;
    instant bigint := hf_enter_1(lock_name);
    span bigint := lease;
BEGIN
    SELECT * INTO held FROM hf_lock WHERE name = lock_name;
    own.fence := held.fence;
    own.broken := held.broken;
    own.ends_us := held.ends_us;
    own.lease_us := held.lease_us;
    IF held.token IS DISTINCT FROM mine THEN
        SELECT * INTO own FROM hf_place WHERE name = lock_name AND token = mine AND fence > 0;
    END IF;
    IF own.ends_us IS NULL OR own.ends_us <= instant THEN
        RETURN 'gone expired';
    END IF;
    IF own.broken THEN
        RETURN 'gone broken';
    END IF;
    IF NOT shorten AND own.ends_us > instant + lease AND own.ends_us <= instant + own.lease_us THEN
        span := own.ends_us - instant;
    END IF;
    IF held.token = mine THEN
        UPDATE hf_lock SET ends_us = instant + span, lease_us = span WHERE name = lock_name;
    ELSE
        UPDATE hf_place SET ends_us = instant + span, lease_us = span
            WHERE name = lock_name AND token = mine;
    END IF;
    RETURN hf_granted_1(lock_name, own.fence);
END
$body$;

-- All of a client. They are entered in the order of their names, which is the same for everybody.
CREATE OR REPLACE FUNCTION hf_refresh_1(names bytea[], tokens uuid[], leases bigint[])
RETURNS text[] LANGUAGE plpgsql AS $body$
DECLARE
    item record;
    answers text[] := array_fill(''::text, ARRAY[cardinality(names)]);
BEGIN
    FOR item IN SELECT * FROM unnest(names, tokens, leases) WITH ORDINALITY
        AS one (lock_name, mine, lease, place) ORDER BY lock_name LOOP
        answers[item.place] := hf_refresh_one_1(item.lock_name, item.mine, item.lease);
    END LOOP;
    RETURN answers;
END
$body$;

CREATE OR REPLACE FUNCTION hf_renew_1(names bytea[], tokens uuid[], leases bigint[],
    shortens boolean[])
RETURNS text[] LANGUAGE plpgsql AS $body$
DECLARE
    item record;
    answers text[] := array_fill(''::text, ARRAY[cardinality(names)]);
BEGIN
    FOR item IN SELECT * FROM unnest(names, tokens, leases, shortens) WITH ORDINALITY
        AS one (lock_name, mine, lease, shorten, place) ORDER BY lock_name LOOP
        answers[item.place] := hf_renew_one_1(item.lock_name, item.mine, item.lease, item.shorten);
    END LOOP;
    RETURN answers;
END
$body$;

-- Out, whether it held or waited; the next is let in, and told. What was held, was held with this
-- fence (0: whichever), or it was taken away, and what is here came late. Nearly every release ends
-- with its first statement; and where somebody waits (crowded: was seen to), with the second, which
-- does what hf_settle_1 would for the first in line, if that one lives and wants it for itself
-- alone.
CREATE OR REPLACE FUNCTION hf_release_1(lock_name bytea, mine uuid, with_fence bigint,
    crowded boolean)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    held hf_lock;
    own hf_place;
    told text;
    instant bigint := hf_enter_1(lock_name);
BEGIN
    IF NOT crowded THEN
        UPDATE hf_lock SET token = NULL WHERE name = lock_name AND token = mine AND places = 0
            AND NOT broken AND ends_us > instant AND with_fence IN (0, fence);
        IF FOUND THEN
            RETURN 'gone 1';
        END IF;
    END IF;
    WITH next AS (DELETE FROM hf_place WHERE name = lock_name AND NOT shared AND ends_us > instant
        AND token = (SELECT p.token FROM hf_place AS p WHERE p.name = lock_name AND p.fence = 0
            ORDER BY p.ticket LIMIT 1)
        AND EXISTS (SELECT FROM hf_lock AS l WHERE l.name = lock_name AND l.token = mine
            AND NOT l.broken AND l.ends_us > instant AND with_fence IN (0, l.fence))
        RETURNING *)
    UPDATE hf_lock AS l SET fence = l.fence + 256, places = l.places - 1, token = next.token,
        ends_us = least(next.ends_us, instant + next.lease_us), lease_us = next.lease_us,
        grace_us = next.grace_us, since_us = instant, bell = next.bell, tag = next.tag,
        who = next.who
        FROM next WHERE l.name = lock_name
        RETURNING pg_notify('hf_' || l.bell, 'granted ' || l.tag || ' ' || l.fence
            || CASE WHEN l.places > 0 THEN ' 1' ELSE ' 0' END) INTO told;
    IF FOUND THEN
        RETURN 'gone 1';
    END IF;
    SELECT * INTO held FROM hf_lock WHERE name = lock_name;
    IF held.token = mine THEN
        PERFORM hf_settle_1(lock_name, NULL, true, instant);
        own.fence := held.fence;
        own.broken := held.broken;
        own.ends_us := held.ends_us;
    ELSE
        DELETE FROM hf_place WHERE name = lock_name AND token = mine RETURNING * INTO own;
        IF NOT FOUND THEN
            RETURN 'gone 0';
        END IF;
        UPDATE hf_lock SET places = places - 1 WHERE name = lock_name;
        PERFORM hf_settle_1(lock_name, NULL, false, instant);
    END IF;
    IF own.broken OR own.ends_us <= instant OR with_fence NOT IN (0, own.fence) THEN
        RETURN 'gone 0';
    END IF;
    RETURN 'gone 1';
END
$body$;

-- Exclusive becomes shared in one step: readers who stand first come in as well.
CREATE OR REPLACE FUNCTION hf_lower_1(lock_name bytea, mine uuid)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    held hf_lock;
    own hf_place;
    instant bigint := hf_enter_1(lock_name);
BEGIN
    SELECT * INTO held FROM hf_lock WHERE name = lock_name;
    IF held.token = mine AND held.ends_us > instant THEN
        IF held.broken THEN
            RETURN 'gone broken';
        END IF;
        INSERT INTO hf_place VALUES (lock_name, mine, 0, held.fence, true, false, held.ends_us,
            held.lease_us, held.grace_us, instant, held.bell, held.tag, held.who);
        UPDATE hf_lock SET places = places + 1, token = NULL WHERE name = lock_name;
        PERFORM hf_settle_1(lock_name, NULL, false, instant);
        RETURN hf_granted_1(lock_name, held.fence);
    END IF;
    SELECT * INTO own FROM hf_place WHERE name = lock_name AND token = mine AND fence > 0
        AND ends_us > instant;
    IF NOT FOUND THEN
        RETURN 'gone expired';
    END IF;
    IF own.broken THEN
        RETURN 'gone broken';
    END IF;
    RETURN hf_granted_1(lock_name, own.fence);
END
$body$;

-- The turn with this fence is over. Its holder is told; if it has a grace, the next is let in when
-- it has left, or when the grace is over.
CREATE OR REPLACE FUNCTION hf_break_1(lock_name bytea, with_fence bigint)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    held hf_lock;
    own hf_place;
    instant bigint := hf_enter_1(lock_name);
BEGIN
    SELECT * INTO held FROM hf_lock WHERE name = lock_name;
    IF held.token IS NOT NULL AND held.ends_us > instant THEN
        IF held.broken OR held.fence <> with_fence THEN
            RETURN 'gone';
        END IF;
        IF held.grace_us > 0 THEN
            UPDATE hf_lock SET broken = true, ends_us = least(ends_us, instant + grace_us)
                WHERE name = lock_name;
        ELSE
            PERFORM hf_settle_1(lock_name, NULL, true, instant);
        END IF;
        PERFORM pg_notify('hf_' || held.bell, 'broken ' || held.tag);
        RETURN 'done';
    END IF;
    SELECT * INTO own FROM hf_place WHERE name = lock_name AND fence = with_fence
        AND fence > 0 AND NOT broken AND ends_us > instant;
    IF NOT FOUND THEN
        RETURN 'gone';
    END IF;
    IF own.grace_us > 0 THEN
        UPDATE hf_place SET broken = true, ends_us = least(ends_us, instant + grace_us)
            WHERE name = lock_name AND token = own.token;
    ELSE
        DELETE FROM hf_place WHERE name = lock_name AND token = own.token;
        UPDATE hf_lock SET places = places - 1 WHERE name = lock_name;
        PERFORM hf_settle_1(lock_name, NULL, false, instant);
    END IF;
    PERFORM pg_notify('hf_' || own.bell, 'broken ' || own.tag);
    RETURN 'done';
END
$body$;

-- Who holds the locks with names from low to high, and who waits for them.
CREATE OR REPLACE FUNCTION hf_list_1(low bytea, high bytea)
RETURNS TABLE (lock_name bytea, rank bigint, is_shared boolean, lock_fence bigint, left_us bigint,
    age_us bigint, of_whom bytea) LANGUAGE sql STABLE AS $body$
    SELECT l.name, 0::bigint, false, l.fence, l.ends_us - now.us, now.us - l.since_us, l.who
        FROM hf_lock AS l, (SELECT hf_now_1() AS us OFFSET 0) AS now
        WHERE l.name >= low AND l.name <= high AND l.token IS NOT NULL AND l.ends_us > now.us
    UNION ALL
    SELECT p.name, CASE WHEN p.fence > 0 THEN 0 ELSE row_number() OVER
            (PARTITION BY p.name, p.fence > 0 ORDER BY p.ticket) END, p.shared, p.fence,
            p.ends_us - now.us, now.us - p.since_us, p.who
        FROM hf_place AS p, (SELECT hf_now_1() AS us OFFSET 0) AS now
        WHERE p.name >= low AND p.name <= high AND p.ends_us > now.us
    ORDER BY 1, 2, 4
$body$;
