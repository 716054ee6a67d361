-- Locks of holdfast, recipe queue, for the command-line client of MariaDB or MySQL. Every name has
-- a row in hf_lock, for ever: it carries the last fence that was given out, and the exclusive
-- holder if there is one (ends_us > 0). Shared holders and those who wait stand in hf_place, and
-- hf_lock counts them. Times are microseconds of the server's clock. `news` is set where somebody
-- has done something to a claim of another client, and that client (its bell) has not answered yet;
-- `knows`: it had known that it holds. Who waits has a ticket above `front`: up to there the index
-- is full of those who have left, until the server tidies up. `heir`: the first of them, where that
-- was noted (heir_ends_us > 0), with all that is known of it, so that one statement on this row
-- lets it in. `lagging`: that was done, and the place in which the holder had waited is still
-- there; whoever locks the row next removes it (hf_tidy_1). Whoever uses locks needs SELECT,
-- INSERT, UPDATE, DELETE on both tables, and EXECUTE. The procedures are called by their version:
-- another version of holdfast brings its own.

DELIMITER //

CREATE TABLE IF NOT EXISTS hf_lock (
    name varbinary(1024) NOT NULL PRIMARY KEY,
    fence bigint unsigned NOT NULL,
    places int unsigned NOT NULL DEFAULT 0,
    front bigint unsigned NOT NULL DEFAULT 0,
    heir binary(16) NOT NULL DEFAULT '',
    heir_ticket bigint unsigned NOT NULL DEFAULT 0,
    heir_ends_us bigint NOT NULL DEFAULT 0,
    heir_lease_us bigint NOT NULL DEFAULT 0,
    heir_grace_us bigint NOT NULL DEFAULT 0,
    heir_bell varbinary(16) NOT NULL DEFAULT '',
    heir_tag bigint unsigned NOT NULL DEFAULT 0,
    heir_account varbinary(128) NOT NULL DEFAULT '',
    heir_who varbinary(512) NOT NULL DEFAULT '',
    token binary(16) NOT NULL DEFAULT '',
    lagging boolean NOT NULL DEFAULT false,
    broken boolean NOT NULL DEFAULT false,
    ends_us bigint NOT NULL DEFAULT 0,
    lease_us bigint NOT NULL DEFAULT 0,
    grace_us bigint NOT NULL DEFAULT 0,
    since_us bigint NOT NULL DEFAULT 0,
    bell varbinary(16) NOT NULL DEFAULT '',
    tag bigint unsigned NOT NULL DEFAULT 0,
    news varbinary(16),
    knows boolean NOT NULL DEFAULT true,
    account varbinary(128) NOT NULL DEFAULT '',
    who varbinary(512) NOT NULL DEFAULT '',
    KEY hf_lock_news (news)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//

-- fence: 0 of who waits, in the order of the tickets; of a shared holder its own. Who was broken
-- without a grace stays for a while, to be told.
CREATE TABLE IF NOT EXISTS hf_place (
    name varbinary(1024) NOT NULL,
    token binary(16) NOT NULL,
    ticket bigint unsigned NOT NULL,
    fence bigint unsigned NOT NULL,
    shared boolean NOT NULL,
    broken boolean NOT NULL DEFAULT false,
    ends_us bigint NOT NULL,
    lease_us bigint NOT NULL,
    grace_us bigint NOT NULL,
    since_us bigint NOT NULL,
    bell varbinary(16) NOT NULL,
    tag bigint unsigned NOT NULL,
    news varbinary(16),
    account varbinary(128) NOT NULL,
    who varbinary(512) NOT NULL,
    PRIMARY KEY (name, token),
    KEY hf_place_order (name, fence, ticket),
    KEY hf_place_news (news)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//

-- Whoever has one of these bells is woken: its connection that waits in hf_listen_1 holds a lock
-- by that name, and what it waits in is ended. It looks at the news then, and waits again. The
-- server lets nobody do that to the connection of another account.
CREATE PROCEDURE IF NOT EXISTS hf_ring_1(bells mediumblob)
SQL SECURITY INVOKER
BEGIN
    DECLARE listener bigint unsigned;
    DECLARE CONTINUE HANDLER FOR 1094, 1095 BEGIN END; -- it has gone; it is another account's
    WHILE length(bells) >= 16 DO
        SET listener = is_used_lock(concat('hf_', left(bells, 16)));
        IF listener IS NOT NULL THEN
            KILL QUERY listener;
        END IF;
        SET bells = substring(bells, 17);
    END WHILE;
END
//

-- Removes a place, as that in which the holder had waited, and notes who is first now, unless it is
-- a reader: others may come in with that. The caller has locked the row.
CREATE PROCEDURE IF NOT EXISTS hf_tidy_1(lock_name varbinary(1024), leaving binary(16))
SQL SECURITY INVOKER
BEGIN
    DECLARE next_token binary(16) DEFAULT '';
    DECLARE next_ticket, next_tag bigint unsigned DEFAULT 0;
    DECLARE next_ends, next_lease, next_grace bigint DEFAULT 0;
    DECLARE next_bell varbinary(16) DEFAULT '';
    DECLARE next_account varbinary(128) DEFAULT '';
    DECLARE next_who varbinary(512) DEFAULT '';
    DELETE FROM hf_place WHERE name = lock_name AND token = leaving;
    SELECT token, ticket, if(shared, 0, ends_us), lease_us, grace_us, bell, tag, account, who
        INTO next_token, next_ticket, next_ends, next_lease, next_grace, next_bell, next_tag,
            next_account, next_who
        FROM hf_place WHERE name = lock_name AND fence = 0
            AND ticket > (SELECT front FROM hf_lock WHERE name = lock_name)
        ORDER BY ticket LIMIT 1;
    UPDATE hf_lock SET lagging = false, heir = next_token, heir_ticket = next_ticket,
        heir_ends_us = next_ends, heir_lease_us = next_lease, heir_grace_us = next_grace,
        heir_bell = next_bell, heir_tag = next_tag, heir_account = next_account,
        heir_who = next_who WHERE name = lock_name;
END
//

-- Lets in whoever is first, and all readers behind a reader, and adds their bells, except the
-- asker's, who has it as the answer. What they get lasts as long as they are known to live; they
-- renew it at once. The caller has locked the row; vacant: the exclusive holder leaves.
CREATE PROCEDURE IF NOT EXISTS hf_settle_1(lock_name varbinary(1024), asker binary(16),
    vacant boolean, instant bigint, INOUT bells mediumblob)
SQL SECURITY INVOKER
body: BEGIN
    DECLARE next_token binary(16);
    DECLARE held_fence, last, passed, next_tag, next_ticket bigint unsigned;
    DECLARE held_ends, held_lease, next_ends, next_lease, next_grace bigint;
    DECLARE held_places, gone, dropped int DEFAULT 0;
    DECLARE next_shared boolean;
    DECLARE reading boolean DEFAULT NULL;
    DECLARE next_bell varbinary(16);
    DECLARE next_account varbinary(128);
    DECLARE next_who varbinary(512);
    SELECT fence, front, ends_us, lease_us, places
        INTO held_fence, passed, held_ends, held_lease, held_places
        FROM hf_lock WHERE name = lock_name FOR UPDATE;
    IF held_ends > instant AND NOT vacant THEN
        IF held_ends > instant + held_lease THEN -- the clock went back
            UPDATE hf_lock SET ends_us = instant + lease_us WHERE name = lock_name;
        END IF;
        LEAVE body;
    END IF;
    SET last = held_fence;
    IF held_ends > 0 THEN -- beside whom nobody read
        SET reading = false;
    END IF;
    line: WHILE held_places > gone DO
        SET next_token = NULL;
        SELECT token, ticket, tag, ends_us, lease_us, grace_us, shared, bell, account, who
            INTO next_token, next_ticket, next_tag, next_ends, next_lease, next_grace, next_shared,
                next_bell, next_account, next_who
            FROM hf_place WHERE name = lock_name AND fence = 0 AND ticket > passed
            ORDER BY ticket LIMIT 1;
        IF next_token IS NULL THEN
            LEAVE line;
        END IF;
        IF next_ends <= instant THEN -- not heard of for its own lease: dead
            DELETE FROM hf_place WHERE name = lock_name AND token = next_token;
            SET gone = gone + 1, passed = next_ticket;
            ITERATE line;
        END IF;
        IF reading IS NULL THEN
            UPDATE hf_place SET ends_us = instant + lease_us
                WHERE name = lock_name AND fence > 0 AND ends_us > instant + lease_us;
            DELETE FROM hf_place WHERE name = lock_name AND fence > 0 AND ends_us <= instant
                AND (news IS NULL OR ends_us <= instant - 10000000);
            SET dropped = row_count();
            SET gone = gone + dropped;
            SET reading = EXISTS (SELECT 1 FROM hf_place WHERE name = lock_name AND fence > 0
                AND ends_us > instant);
        END IF;
        IF reading AND NOT next_shared THEN
            LEAVE line;
        END IF;
        SET last = last + 256, passed = next_ticket;
        IF NOT (next_token <=> asker) THEN
            SET bells = concat(bells, next_bell);
        END IF;
        IF next_shared THEN
            UPDATE hf_place SET fence = last, since_us = instant,
                ends_us = least(ends_us, instant + lease_us), news = bell
                WHERE name = lock_name AND token = next_token;
            SET reading = true;
            ITERATE line;
        END IF;
        UPDATE hf_lock SET fence = last, places = places - gone - 1, front = passed,
            token = next_token, broken = false, ends_us = least(next_ends, instant + next_lease),
            lease_us = next_lease, grace_us = next_grace, since_us = instant, bell = next_bell,
            tag = next_tag, news = next_bell, knows = false, account = next_account,
            who = next_who WHERE name = lock_name;
        CALL hf_tidy_1(lock_name, next_token);
        LEAVE body;
    END WHILE;
    IF gone > 0 OR last > held_fence OR held_ends > 0 THEN
        UPDATE hf_lock SET fence = last, places = places - gone, front = passed, ends_us = 0,
            broken = false, news = NULL, heir_ends_us = 0 WHERE name = lock_name;
    END IF;
END
//

-- What this token has, with its lease begun anew; NULL: nothing. The caller has locked the row.
CREATE PROCEDURE IF NOT EXISTS hf_find_1(lock_name varbinary(1024), mine binary(16), lease bigint,
    instant bigint, OUT answer varbinary(64))
SQL SECURITY INVOKER
BEGIN
    DECLARE given, held_front bigint unsigned;
    SET answer = NULL;
    SELECT if(token = mine AND NOT broken AND ends_us > instant, fence, NULL), front
        INTO given, held_front FROM hf_lock WHERE name = lock_name FOR UPDATE;
    IF given IS NOT NULL THEN
        UPDATE hf_lock SET ends_us = instant + lease, news = NULL, knows = true
            WHERE name = lock_name;
    ELSE
        SELECT fence INTO given FROM hf_place
            WHERE name = lock_name AND token = mine AND fence > 0 AND NOT broken
                AND ends_us > instant FOR UPDATE;
        IF given IS NOT NULL THEN
            UPDATE hf_place SET ends_us = instant + lease, news = NULL
                WHERE name = lock_name AND token = mine;
        END IF;
    END IF;
    IF given IS NOT NULL THEN
        SET answer = concat('granted ', given, ' ', EXISTS (SELECT 1 FROM hf_place
            WHERE name = lock_name AND fence = 0 AND ticket > held_front));
    END IF;
END
//

-- The kind, how many are ahead, how many of them wait, ms until the holders' leases end, the last
-- fence given out, the holder's, whether one of those ahead cannot wake us, and who the holder is.
CREATE PROCEDURE IF NOT EXISTS hf_busy_1(kind varbinary(16), lock_name varbinary(1024),
    mine binary(16), instant bigint, OUT answer varbinary(2048))
SQL SECURITY INVOKER
BEGIN
    DECLARE held_fence, held_front, holder_fence bigint unsigned DEFAULT 0;
    DECLARE holder_ends bigint DEFAULT 0;
    DECLARE own_ticket bigint unsigned DEFAULT 18446744073709551615;
    DECLARE ahead int DEFAULT 1;
    DECLARE waiting, strangers int DEFAULT 0;
    DECLARE my_account, holder_account varbinary(128) DEFAULT substring_index(user(), '@', 1);
    DECLARE holder_who varbinary(512) DEFAULT '';
    SELECT fence, front, fence, ends_us, account, who
        INTO held_fence, held_front, holder_fence, holder_ends, holder_account, holder_who
        FROM hf_lock WHERE name = lock_name FOR UPDATE;
    SELECT ticket INTO own_ticket FROM hf_place WHERE name = lock_name AND token = mine;
    SELECT count(*), coalesce(sum(account <> my_account), 0) INTO waiting, strangers FROM hf_place
        WHERE name = lock_name AND fence = 0 AND ticket > held_front AND ticket < own_ticket;
    IF holder_ends = 0 THEN
        SET holder_fence = 0, holder_ends = 0, holder_account = my_account, holder_who = '';
        SELECT count(*) INTO ahead FROM hf_place
            WHERE name = lock_name AND fence > 0 AND ends_us > instant;
        SELECT fence, ends_us, account, who
            INTO holder_fence, holder_ends, holder_account, holder_who FROM hf_place
            WHERE name = lock_name AND fence > 0 AND ends_us > instant
            ORDER BY ends_us DESC LIMIT 1;
    END IF;
    SET answer = concat(kind, ' ', ahead + waiting, ' ', waiting, ' ',
        greatest((holder_ends - instant + 999) DIV 1000, 0), ' ', held_fence, ' ', holder_fence,
        ' ', strangers > 0 OR holder_account <> my_account, ' ', hex(holder_who));
END
//

-- Take it, or stand in line for it; once more: where does this token stand? Most claims are not
-- made here: a statement of its own takes a lock that is free.
CREATE PROCEDURE IF NOT EXISTS hf_claim_1(lock_name varbinary(1024), mine binary(16),
    sharing boolean, queueing boolean, lease bigint, grace bigint, latest bigint,
    my_bell varbinary(16), my_tag bigint unsigned, my_who varbinary(512))
SQL SECURITY INVOKER
body: BEGIN
    DECLARE instant, held_ends bigint;
    DECLARE held_fence, held_front, own_fence, last_ticket bigint unsigned;
    DECLARE given bigint unsigned DEFAULT 0;
    DECLARE held_token binary(16);
    DECLARE held_lagging, held_broken, own_broken boolean DEFAULT false;
    DECLARE held_places, gone int DEFAULT 0;
    DECLARE held_bell varbinary(16);
    DECLARE held_account varbinary(128);
    DECLARE held_who varbinary(512);
    DECLARE my_account varbinary(128) DEFAULT substring_index(user(), '@', 1);
    DECLARE answer varbinary(2048);
    DECLARE bells mediumblob DEFAULT '';
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    ROLLBACK; -- whatever a statement that was killed has left
    START TRANSACTION;
    SELECT token, fence, front, places, lagging, broken, ends_us, bell, account, who
        INTO held_token, held_fence, held_front, held_places, held_lagging, held_broken, held_ends,
            held_bell, held_account, held_who FROM hf_lock WHERE name = lock_name FOR UPDATE;
    IF held_fence IS NULL THEN
        INSERT INTO hf_lock (name, fence) VALUES (lock_name, 0)
            ON DUPLICATE KEY UPDATE fence = fence;
        SELECT token, fence, front, places, lagging, broken, ends_us, bell, account, who
            INTO held_token, held_fence, held_front, held_places, held_lagging, held_broken,
                held_ends, held_bell, held_account, held_who
            FROM hf_lock WHERE name = lock_name FOR UPDATE;
    END IF;
    IF held_lagging THEN
        CALL hf_tidy_1(lock_name, held_token);
    END IF;
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF instant > latest THEN -- whoever sent this has given up long ago
        COMMIT;
        SELECT 'stale';
        LEAVE body;
    END IF;
    IF held_places > 0 THEN
        SELECT fence, broken INTO own_fence, own_broken FROM hf_place
            WHERE name = lock_name AND token = mine FOR UPDATE;
        SELECT max(ticket) INTO last_ticket FROM hf_place
            WHERE name = lock_name AND fence = 0 AND ticket > held_front;
    END IF;
    IF held_token <=> mine OR own_fence > 0 THEN
        CALL hf_find_1(lock_name, mine, lease, instant, answer);
    END IF;
    IF answer IS NULL AND held_fence >= 4611686018410610688 THEN
        SET answer = 'spent'; -- 65536 grants before 2^62, for those who wait
    END IF;
    IF answer IS NULL
        AND (own_broken OR (held_token <=> mine AND held_broken AND held_ends > instant)) THEN
        SET answer = 'gone broken';
    END IF;
    IF answer IS NOT NULL THEN
        COMMIT;
        SELECT answer;
        LEAVE body;
    END IF;
    IF NOT sharing AND held_places = 0 AND held_ends <= instant THEN
        UPDATE hf_lock SET fence = held_fence + 256, token = mine, broken = false,
            ends_us = instant + lease, lease_us = lease, grace_us = grace, since_us = instant,
            bell = my_bell, tag = my_tag, news = NULL, knows = true, account = my_account,
            who = my_who WHERE name = lock_name;
        COMMIT;
        SELECT concat('granted ', held_fence + 256, ' 0');
        LEAVE body;
    END IF;
    IF own_fence > 0 THEN -- it held, and its lease has ended
        DELETE FROM hf_place WHERE name = lock_name AND token = mine;
        UPDATE hf_lock SET places = places - 1 WHERE name = lock_name;
        SET own_fence = NULL;
    END IF;
    IF NOT queueing THEN
        CALL hf_settle_1(lock_name, NULL, false, instant, bells);
        SELECT ends_us, fence, front INTO held_ends, held_fence, held_front FROM hf_lock
            WHERE name = lock_name FOR UPDATE;
        SET last_ticket = NULL;
        IF held_ends > 0 OR EXISTS (SELECT 1 FROM hf_place WHERE name = lock_name
            AND (fence = 0 OR (NOT sharing AND ends_us > instant))) THEN
            CALL hf_busy_1('refused', lock_name, NULL, instant, answer);
            COMMIT;
            CALL hf_ring_1(bells);
            SELECT answer;
            LEAVE body;
        END IF;
    END IF;
    IF own_fence IS NOT NULL THEN
        UPDATE hf_place SET shared = sharing, ends_us = instant + lease, lease_us = lease,
            grace_us = grace, bell = my_bell, tag = my_tag, account = my_account, who = my_who
            WHERE name = lock_name AND token = mine;
        UPDATE hf_lock SET heir_ends_us = 0 WHERE name = lock_name AND heir = mine;
    ELSE
        IF held_places >= 65536 THEN
            DELETE FROM hf_place WHERE name = lock_name AND ends_us <= instant;
            SET gone = row_count();
            UPDATE hf_lock SET places = places - gone, heir_ends_us = 0 WHERE name = lock_name;
            IF held_places - gone >= 65536 THEN
                COMMIT;
                SELECT 'full';
                LEAVE body;
            END IF;
        END IF;
        IF sharing AND last_ticket IS NULL AND held_ends <= instant THEN
            SET given = held_fence + 256; -- among readers, or into an empty room
        END IF;
        INSERT INTO hf_place VALUES (lock_name, mine, coalesce(last_ticket, held_front) + 1, given,
            sharing, false, instant + lease, lease, grace, instant, my_bell, my_tag, NULL,
            my_account, my_who);
        IF given > 0 THEN
            UPDATE hf_lock SET places = places + 1, fence = given, ends_us = 0, broken = false,
                news = NULL WHERE name = lock_name;
            COMMIT;
            SELECT concat('granted ', given, ' 0');
            LEAVE body;
        END IF;
        IF held_ends > instant AND last_ticket IS NULL THEN
            UPDATE hf_lock SET places = places + 1, news = bell, heir = mine,
                heir_ticket = held_front + 1, heir_ends_us = if(sharing, 0, instant + lease),
                heir_lease_us = lease, heir_grace_us = grace, heir_bell = my_bell,
                heir_tag = my_tag, heir_account = my_account, heir_who = my_who
                WHERE name = lock_name;
            SET bells = held_bell;
            SET answer = concat('queued 1 0 ', (held_ends - instant + 999) DIV 1000, ' ',
                held_fence, ' ', held_fence, ' ', held_account <> my_account, ' ', hex(held_who));
        ELSE
            UPDATE hf_lock SET places = places + 1 WHERE name = lock_name;
        END IF;
    END IF;
    IF held_ends <= instant THEN
        CALL hf_settle_1(lock_name, mine, false, instant, bells);
        CALL hf_find_1(lock_name, mine, lease, instant, answer);
    END IF;
    IF answer IS NULL THEN
        CALL hf_busy_1('queued', lock_name, mine, instant, answer);
    END IF;
    COMMIT;
    IF bells <> '' THEN
        CALL hf_ring_1(bells);
    END IF;
    SELECT answer;
END
//

-- Out, whether it held or waited; the next is let in, and told. What was held, was held with this
-- fence (0: whichever), or it was taken away, and what is here came late. And whether there was
-- anybody else. What is simple is not done here: a statement of its own gives back what nobody
-- waits for, and another hands it to the heir.
CREATE PROCEDURE IF NOT EXISTS hf_release_1(lock_name varbinary(1024), mine binary(16),
    with_fence bigint unsigned)
SQL SECURITY INVOKER
body: BEGIN
    DECLARE instant, own_ends bigint;
    DECLARE own_fence bigint unsigned;
    DECLARE own_token binary(16);
    DECLARE own_broken, own_lagging boolean;
    DECLARE held_places int DEFAULT 0;
    DECLARE bells mediumblob DEFAULT '';
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    ROLLBACK;
    START TRANSACTION;
    SELECT token, fence, lagging, broken, ends_us, places
        INTO own_token, own_fence, own_lagging, own_broken, own_ends, held_places
        FROM hf_lock WHERE name = lock_name FOR UPDATE;
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF own_lagging THEN
        CALL hf_tidy_1(lock_name, own_token);
    END IF;
    IF own_token <=> mine AND own_ends > 0 THEN
        CALL hf_settle_1(lock_name, NULL, true, instant, bells);
    ELSE
        SET own_token = NULL;
        SELECT token, fence, broken, ends_us INTO own_token, own_fence, own_broken, own_ends
            FROM hf_place WHERE name = lock_name AND token = mine FOR UPDATE;
        IF own_token IS NULL THEN
            COMMIT;
            SELECT 'gone 0 1';
            LEAVE body;
        END IF;
        UPDATE hf_lock SET places = places - 1 WHERE name = lock_name;
        CALL hf_tidy_1(lock_name, mine);
        CALL hf_settle_1(lock_name, NULL, false, instant, bells);
    END IF;
    COMMIT;
    CALL hf_ring_1(bells);
    SELECT concat('gone ', NOT (own_broken OR own_ends <= instant
        OR with_fence NOT IN (0, own_fence)), ' ', held_places > 0);
END
//

-- It is still ours, and for longer. A lease is shortened only where that was asked for.
CREATE PROCEDURE IF NOT EXISTS hf_renew_one_1(lock_name varbinary(1024), mine binary(16),
    lease bigint, shorten boolean, OUT answer varbinary(64))
SQL SECURITY INVOKER
body: BEGIN
    DECLARE instant, own_ends, own_lease bigint;
    DECLARE own_fence, held_front bigint unsigned;
    DECLARE held_token binary(16);
    DECLARE own_broken, held_lagging boolean;
    DECLARE held_places int DEFAULT 0;
    SELECT token, fence, lagging, broken, ends_us, lease_us, places, front INTO held_token,
        own_fence, held_lagging, own_broken, own_ends, own_lease, held_places, held_front
        FROM hf_lock WHERE name = lock_name FOR UPDATE;
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF held_lagging THEN
        CALL hf_tidy_1(lock_name, held_token);
    END IF;
    IF NOT (held_token <=> mine) THEN
        SET own_ends = NULL;
        SELECT fence, broken, ends_us, lease_us INTO own_fence, own_broken, own_ends, own_lease
            FROM hf_place WHERE name = lock_name AND token = mine AND fence > 0 FOR UPDATE;
    END IF;
    IF own_ends IS NOT NULL AND own_broken THEN
        SET answer = 'gone broken';
        LEAVE body;
    END IF;
    IF own_ends IS NULL OR own_ends <= instant THEN
        SET answer = 'gone expired';
        LEAVE body;
    END IF;
    IF NOT shorten AND own_ends > instant + lease AND own_ends <= instant + own_lease THEN
        SET lease = own_ends - instant;
    END IF;
    IF held_token <=> mine THEN
        UPDATE hf_lock SET ends_us = instant + lease, lease_us = lease, news = NULL, knows = true
            WHERE name = lock_name;
        SET answer = concat('granted ', own_fence, ' ', held_places > 0);
    ELSE
        UPDATE hf_place SET ends_us = instant + lease, lease_us = lease, news = NULL
            WHERE name = lock_name AND token = mine;
        SET answer = concat('granted ', own_fence, ' ', EXISTS (SELECT 1 FROM hf_place
            WHERE name = lock_name AND fence = 0 AND ticket > held_front));
    END IF;
END
//

-- Where does this one stand? Who waits is known to live for another lease.
CREATE PROCEDURE IF NOT EXISTS hf_refresh_one_1(lock_name varbinary(1024), mine binary(16),
    lease bigint, OUT answer varbinary(2048), INOUT bells mediumblob)
SQL SECURITY INVOKER
body: BEGIN
    DECLARE instant bigint;
    DECLARE held_lagging boolean;
    DECLARE held_token, own_token binary(16);
    SELECT token, lagging INTO held_token, held_lagging FROM hf_lock WHERE name = lock_name
        FOR UPDATE;
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF held_lagging THEN
        CALL hf_tidy_1(lock_name, held_token);
    END IF;
    CALL hf_find_1(lock_name, mine, lease, instant, answer);
    IF answer IS NOT NULL THEN
        LEAVE body;
    END IF;
    SELECT token INTO own_token FROM hf_place WHERE name = lock_name AND token = mine AND fence = 0
        FOR UPDATE;
    IF own_token IS NULL THEN
        SET answer = 'gone';
        LEAVE body;
    END IF;
    UPDATE hf_place SET lease_us = lease, ends_us = instant + lease
        WHERE name = lock_name AND token = mine;
    UPDATE hf_lock SET heir_lease_us = lease, heir_ends_us = instant + lease
        WHERE name = lock_name AND heir = mine AND heir_ends_us > 0;
    CALL hf_settle_1(lock_name, mine, false, instant, bells);
    CALL hf_find_1(lock_name, mine, lease, instant, answer);
    IF answer IS NULL THEN
        CALL hf_busy_1('queued', lock_name, mine, instant, answer);
    END IF;
END
//

-- All of a client, in the order of their names, which is the same for everybody: for each the
-- length of its name (2 bytes), the name, the token, the lease (8), 1 if it may be shortened. The
-- answers are lines.
CREATE PROCEDURE IF NOT EXISTS hf_together_1(renewing boolean, items mediumblob)
SQL SECURITY INVOKER
BEGIN
    DECLARE at, size int DEFAULT 1;
    DECLARE lock_name varbinary(1024);
    DECLARE mine binary(16);
    DECLARE lease bigint;
    DECLARE shorten boolean;
    DECLARE answer varbinary(2048);
    DECLARE answers, bells mediumblob DEFAULT '';
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    ROLLBACK;
    START TRANSACTION;
    WHILE at < length(items) DO
        SET size = conv(hex(substring(items, at, 2)), 16, 10);
        SET lock_name = substring(items, at + 2, size);
        SET at = at + 2 + size;
        SET mine = substring(items, at, 16);
        SET lease = conv(hex(substring(items, at + 16, 8)), 16, 10);
        SET shorten = substring(items, at + 24, 1) = '1';
        SET at = at + 25;
        IF renewing THEN
            CALL hf_renew_one_1(lock_name, mine, lease, shorten, answer);
        ELSE
            CALL hf_refresh_one_1(lock_name, mine, lease, answer, bells);
        END IF;
        SET answers = concat(answers, answer, '\n');
    END WHILE;
    COMMIT;
    IF bells <> '' THEN
        CALL hf_ring_1(bells);
    END IF;
    SELECT answers;
END
//

-- Exclusive becomes shared in one step: readers who stand first come in as well.
CREATE PROCEDURE IF NOT EXISTS hf_lower_1(lock_name varbinary(1024), mine binary(16))
SQL SECURITY INVOKER
BEGIN
    DECLARE instant, own_ends bigint;
    DECLARE own_fence bigint unsigned;
    DECLARE held_token binary(16);
    DECLARE own_broken, held_lagging boolean;
    DECLARE answer varbinary(64) DEFAULT 'gone expired';
    DECLARE bells mediumblob DEFAULT '';
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    ROLLBACK;
    START TRANSACTION;
    SELECT token, fence, lagging, broken, ends_us
        INTO held_token, own_fence, held_lagging, own_broken, own_ends
        FROM hf_lock WHERE name = lock_name FOR UPDATE;
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF held_lagging THEN
        CALL hf_tidy_1(lock_name, held_token);
    END IF;
    IF NOT (held_token <=> mine) THEN
        SET own_ends = NULL;
        SELECT fence, broken, ends_us INTO own_fence, own_broken, own_ends FROM hf_place
            WHERE name = lock_name AND token = mine AND fence > 0 FOR UPDATE;
    END IF;
    IF own_ends > instant AND own_broken THEN
        SET answer = 'gone broken';
    ELSEIF own_ends > instant THEN
        IF held_token <=> mine THEN
            INSERT INTO hf_place SELECT name, token, 0, fence, true, false, ends_us, lease_us,
                grace_us, instant, bell, tag, NULL, account, who FROM hf_lock
                WHERE name = lock_name;
            UPDATE hf_lock SET places = places + 1, ends_us = 0, token = '', news = NULL
                WHERE name = lock_name;
            CALL hf_settle_1(lock_name, NULL, false, instant, bells);
        END IF;
        SET answer = concat('granted ', own_fence, ' ', EXISTS (SELECT 1 FROM hf_place
            WHERE name = lock_name AND fence = 0));
    END IF;
    COMMIT;
    CALL hf_ring_1(bells);
    SELECT answer;
END
//

-- The turn with this fence is over. Its holder is told; if it has a grace, the next is let in when
-- it has left, or when the grace is over.
CREATE PROCEDURE IF NOT EXISTS hf_break_1(lock_name varbinary(1024), with_fence bigint unsigned)
SQL SECURITY INVOKER
body: BEGIN
    DECLARE instant, own_ends, own_grace bigint;
    DECLARE own_fence bigint unsigned;
    DECLARE own_token binary(16);
    DECLARE exclusive boolean DEFAULT true;
    DECLARE own_broken, held_lagging boolean;
    DECLARE bells mediumblob DEFAULT '';
    DECLARE own_bell varbinary(16);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    ROLLBACK;
    START TRANSACTION;
    SELECT token, fence, lagging, broken, ends_us, grace_us, bell
        INTO own_token, own_fence, held_lagging, own_broken, own_ends, own_grace, own_bell
        FROM hf_lock WHERE name = lock_name FOR UPDATE;
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF held_lagging THEN
        CALL hf_tidy_1(lock_name, own_token);
    END IF;
    IF own_ends <= instant THEN
        SET own_fence = NULL, exclusive = false;
        SELECT token, fence, broken, ends_us, grace_us, bell
            INTO own_token, own_fence, own_broken, own_ends, own_grace, own_bell FROM hf_place
            WHERE name = lock_name AND fence = with_fence AND fence > 0 AND ends_us > instant
            LIMIT 1 FOR UPDATE;
    END IF;
    IF own_fence IS NULL OR own_fence <> with_fence OR own_broken THEN
        COMMIT;
        SELECT 'gone';
        LEAVE body;
    END IF;
    IF exclusive AND own_grace > 0 THEN
        UPDATE hf_lock SET broken = true, ends_us = least(ends_us, instant + grace_us), news = bell
            WHERE name = lock_name;
    ELSEIF exclusive THEN
        INSERT INTO hf_place SELECT name, token, 0, fence, false, true, instant, lease_us, 0,
            since_us, bell, tag, bell, account, who FROM hf_lock WHERE name = lock_name;
        UPDATE hf_lock SET places = places + 1, token = '' WHERE name = lock_name;
        CALL hf_settle_1(lock_name, NULL, true, instant, bells);
    ELSE
        UPDATE hf_place SET broken = true, ends_us = least(ends_us, instant + grace_us),
            news = bell WHERE name = lock_name AND token = own_token;
        CALL hf_settle_1(lock_name, NULL, false, instant, bells);
    END IF;
    COMMIT;
    CALL hf_ring_1(concat(own_bell, bells));
    SELECT 'done';
END
//

-- May this account do all that it takes? Nothing is changed.
CREATE PROCEDURE IF NOT EXISTS hf_rights_1()
SQL SECURITY INVOKER
BEGIN
    UPDATE hf_lock SET fence = fence WHERE false;
    UPDATE hf_place SET fence = fence WHERE false;
    INSERT INTO hf_lock SELECT * FROM hf_lock WHERE false;
    INSERT INTO hf_place SELECT * FROM hf_place WHERE false;
    DELETE FROM hf_place WHERE false;
END
//

-- What has been done to claims of this client by others, except what it has seen; if there is
-- nothing, it waits until somebody rings. A connection of this client that is not heard of any more
-- makes way. It waits for a lock that another connection of its client has for good, and sleeps
-- only if that is gone: in MariaDB 10.11 a KILL QUERY that meets the beginning of sleep() takes
-- 2 s, in which nobody else can be woken either.
CREATE PROCEDURE IF NOT EXISTS hf_listen_1(my_bell varbinary(16), seen varbinary(2048), wait_s int)
SQL SECURITY INVOKER
BEGIN
    DECLARE listener bigint unsigned DEFAULT is_used_lock(concat('hf_', my_bell));
    DECLARE found int;
    DECLARE CONTINUE HANDLER FOR 1094, 1095 BEGIN END;
    IF NOT (listener <=> connection_id()) THEN
        IF listener IS NOT NULL THEN
            KILL CONNECTION listener;
        END IF;
        DO get_lock(concat('hf_', my_bell), 5);
    END IF;
    SELECT concat(token, if(broken, 'b', if(knows, 'c', 'g'))), cast(tag AS char),
        cast(fence AS char), cast(places > 0 AS char) FROM hf_lock
        WHERE news = my_bell AND ends_us > 0
            AND NOT instr(seen, concat(token, if(broken, 'b', if(knows, 'c', 'g'))));
    SET found = found_rows();
    SELECT concat(token, if(broken, 'b', 'g')), cast(tag AS char), cast(fence AS char), '1'
        FROM hf_place WHERE news = my_bell AND fence > 0
            AND NOT instr(seen, concat(token, if(broken, 'b', 'g')));
    IF found + found_rows() = 0 AND get_lock(concat('hf_', my_bell, '!'), wait_s) THEN
        DO release_lock(concat('hf_', my_bell, '!')), sleep(wait_s);
    END IF;
END
//

DELIMITER ;
