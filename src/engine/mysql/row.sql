-- Locks of holdfast, recipe row, for the command-line client of MariaDB or MySQL. Who has a row in
-- hf_row whose end has not come holds the lock: any program may insert one, and delete its own, and
-- take over one whose end has come (microseconds of the server's clock). What only holdfast needs
-- is beside it in hf_fence, for ever: the last fence, and who got it. Whoever uses locks needs
-- SELECT, INSERT, UPDATE, DELETE on both tables, and EXECUTE.

DELIMITER //

CREATE TABLE IF NOT EXISTS hf_row (
    name varbinary(1024) NOT NULL PRIMARY KEY,
    owner varbinary(64) NOT NULL,
    expires_us bigint NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//

-- kind: the table in which the lock is. ousted: who was broken last. news: its bell, until the lock
-- is taken again.
CREATE TABLE IF NOT EXISTS hf_fence (
    kind varbinary(64) NOT NULL,
    name varbinary(1024) NOT NULL,
    fence bigint unsigned NOT NULL,
    owner varbinary(64) NOT NULL DEFAULT '',
    broken boolean NOT NULL DEFAULT false,
    ousted varbinary(64) NOT NULL DEFAULT '',
    grace_us bigint NOT NULL DEFAULT 0,
    since_us bigint NOT NULL DEFAULT 0,
    bell varbinary(16) NOT NULL DEFAULT '',
    tag bigint unsigned NOT NULL DEFAULT 0,
    news varbinary(16),
    who varbinary(512) NOT NULL DEFAULT '',
    version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, name),
    KEY hf_fence_news (news)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//

-- Take it if it is free; once more: has this token got it? The parameters are those of every
-- recipe.
CREATE PROCEDURE IF NOT EXISTS hf_row_claim_1(lock_name varbinary(1024), mine binary(16),
    sharing boolean, queueing boolean, lease bigint, grace bigint, latest bigint,
    my_bell varbinary(16), my_tag bigint unsigned, my_who varbinary(512))
SQL SECURITY INVOKER
body: BEGIN
    DECLARE me, held_owner, known_owner varbinary(64);
    DECLARE instant, held_ends bigint;
    DECLARE known_fence bigint unsigned;
    DECLARE known_broken, met boolean DEFAULT false;
    DECLARE known_who varbinary(512);
    DECLARE CONTINUE HANDLER FOR 1062 SET met = true;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    SET me = lower(hex(mine));
    ROLLBACK; -- whatever a statement that was killed has left
    START TRANSACTION;
    INSERT INTO hf_fence (kind, name, fence) VALUES ('hf_row', lock_name, 0)
        ON DUPLICATE KEY UPDATE fence = fence;
    SELECT fence, owner, broken, who INTO known_fence, known_owner, known_broken, known_who
        FROM hf_fence WHERE kind = 'hf_row' AND name = lock_name FOR UPDATE;
    SELECT owner, expires_us INTO held_owner, held_ends FROM hf_row WHERE name = lock_name
        FOR UPDATE;
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF instant > latest THEN -- whoever sent this has given up long ago
        COMMIT;
        SELECT 'stale';
        LEAVE body;
    END IF;
    IF held_owner = me AND held_ends > instant THEN
        IF NOT known_broken THEN
            UPDATE hf_row SET expires_us = instant + lease WHERE name = lock_name;
        END IF;
        COMMIT;
        SELECT if(known_broken, 'gone broken', concat('granted ', known_fence, ' 0'));
        LEAVE body;
    END IF;
    IF known_fence >= 4611686018427387648 THEN
        COMMIT;
        SELECT 'spent';
        LEAVE body;
    END IF;
    IF held_owner IS NULL THEN
        INSERT INTO hf_row (name, owner, expires_us) VALUES (lock_name, me, instant + lease);
        IF met THEN -- another program was faster
            SELECT owner, expires_us INTO held_owner, held_ends FROM hf_row
                WHERE name = lock_name FOR UPDATE;
        END IF;
    ELSEIF held_ends <= instant THEN
        UPDATE hf_row SET owner = me, expires_us = instant + lease WHERE name = lock_name;
    END IF;
    IF met OR held_ends > instant THEN
        COMMIT;
        SELECT concat('refused 1 0 ',
            greatest((coalesce(held_ends, instant) - instant + 999) DIV 1000, 0), ' ', known_fence,
            ' ', if(known_owner = held_owner, known_fence, 0), ' 0 ',
            if(known_owner = held_owner, hex(known_who), ''));
        LEAVE body;
    END IF;
    UPDATE hf_fence SET fence = known_fence + 256, owner = me, broken = false, grace_us = grace,
        since_us = instant, bell = my_bell, tag = my_tag, news = NULL, who = my_who
        WHERE kind = 'hf_row' AND name = lock_name;
    COMMIT;
    SELECT concat('granted ', known_fence + 256, ' 0');
END
//

-- Out. What was held, was held with this fence (0: whichever), or it was taken away.
CREATE PROCEDURE IF NOT EXISTS hf_row_release_1(lock_name varbinary(1024), mine binary(16),
    with_fence bigint unsigned)
SQL SECURITY INVOKER
BEGIN
    DECLARE me, held_owner varbinary(64);
    DECLARE instant, held_ends bigint;
    DECLARE known_fence bigint unsigned;
    DECLARE known_broken boolean;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    SET me = lower(hex(mine));
    ROLLBACK;
    START TRANSACTION;
    SELECT fence, broken INTO known_fence, known_broken FROM hf_fence
        WHERE kind = 'hf_row' AND name = lock_name FOR UPDATE;
    SELECT owner, expires_us INTO held_owner, held_ends FROM hf_row WHERE name = lock_name
        FOR UPDATE;
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF held_owner = me THEN
        DELETE FROM hf_row WHERE name = lock_name;
    END IF;
    COMMIT;
    SELECT concat('gone ', held_owner <=> me AND held_ends > instant AND NOT known_broken
        AND with_fence IN (0, known_fence), ' 1');
END
//

CREATE PROCEDURE IF NOT EXISTS hf_row_renew_one_1(lock_name varbinary(1024), mine binary(16),
    lease bigint, shorten boolean, OUT answer varbinary(64))
SQL SECURITY INVOKER
BEGIN
    DECLARE me, held_owner varbinary(64);
    DECLARE instant, held_ends bigint;
    DECLARE known_fence bigint unsigned;
    DECLARE known_ousted varbinary(64);
    SET me = lower(hex(mine));
    SELECT fence, ousted INTO known_fence, known_ousted FROM hf_fence
        WHERE kind = 'hf_row' AND name = lock_name FOR UPDATE;
    SELECT owner, expires_us INTO held_owner, held_ends FROM hf_row WHERE name = lock_name
        FOR UPDATE;
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF known_ousted <=> me THEN
        SET answer = 'gone broken';
    ELSEIF held_owner <=> me AND held_ends > instant THEN
        IF shorten OR held_ends < instant + lease THEN
            UPDATE hf_row SET expires_us = instant + lease WHERE name = lock_name;
        END IF;
        SET answer = concat('granted ', known_fence, ' 0');
    ELSE
        SET answer = 'gone expired';
    END IF;
END
//

-- All of a client, in the order of their names, as in the recipe queue.
CREATE PROCEDURE IF NOT EXISTS hf_row_together_1(renewing boolean, items mediumblob)
SQL SECURITY INVOKER
BEGIN
    DECLARE at, size int DEFAULT 1;
    DECLARE lock_name varbinary(1024);
    DECLARE answer varbinary(64);
    DECLARE answers mediumblob DEFAULT '';
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    ROLLBACK;
    START TRANSACTION;
    WHILE at < length(items) DO
        SET size = conv(hex(substring(items, at, 2)), 16, 10);
        SET lock_name = substring(items, at + 2, size);
        SET at = at + 2 + size;
        CALL hf_row_renew_one_1(lock_name, substring(items, at, 16),
            conv(hex(substring(items, at + 16, 8)), 16, 10), substring(items, at + 24, 1) = '1',
            answer);
        SET at = at + 25;
        SET answers = concat(answers, answer, '\n');
    END WHILE;
    COMMIT;
    SELECT answers;
END
//

-- Whoever has one of these bells is woken: its connection that waits in hf_row_listen_1 holds a
-- lock by that name, and what it waits in is ended. It looks at the news then, and waits again. The
-- server lets nobody do that to the connection of another account.
CREATE PROCEDURE IF NOT EXISTS hf_row_ring_1(bells mediumblob)
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

-- The turn with this fence is over; its holder is told. If it has a grace, the next can get in
-- when it has left, or when the grace is over.
CREATE PROCEDURE IF NOT EXISTS hf_row_break_1(lock_name varbinary(1024), with_fence bigint unsigned)
SQL SECURITY INVOKER
body: BEGIN
    DECLARE held_owner, known_owner varbinary(64);
    DECLARE known_bell varbinary(16);
    DECLARE instant, held_ends, known_grace bigint;
    DECLARE known_fence bigint unsigned;
    DECLARE known_broken boolean;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    ROLLBACK;
    START TRANSACTION;
    SELECT fence, owner, broken, grace_us, bell
        INTO known_fence, known_owner, known_broken, known_grace, known_bell
        FROM hf_fence WHERE kind = 'hf_row' AND name = lock_name FOR UPDATE;
    SELECT owner, expires_us INTO held_owner, held_ends FROM hf_row WHERE name = lock_name
        FOR UPDATE;
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF held_owner IS NULL OR held_ends <= instant OR held_owner <> known_owner
        OR known_fence <> with_fence OR known_broken THEN
        COMMIT;
        SELECT 'gone';
        LEAVE body;
    END IF;
    UPDATE hf_fence SET broken = true, ousted = known_owner, news = bell
        WHERE kind = 'hf_row' AND name = lock_name;
    UPDATE hf_row SET expires_us = least(expires_us, instant + known_grace)
        WHERE name = lock_name;
    COMMIT;
    CALL hf_row_ring_1(known_bell);
    SELECT 'done';
END
//

-- What has been broken of this client's, except what it has seen; if there is nothing, it waits
-- until somebody rings. As in the recipe queue.
CREATE PROCEDURE IF NOT EXISTS hf_row_listen_1(my_bell varbinary(16), seen varbinary(2048),
    wait_s int)
SQL SECURITY INVOKER
BEGIN
    DECLARE listener bigint unsigned DEFAULT is_used_lock(concat('hf_', my_bell));
    DECLARE CONTINUE HANDLER FOR 1094, 1095 BEGIN END;
    IF NOT (listener <=> connection_id()) THEN
        IF listener IS NOT NULL THEN
            KILL CONNECTION listener;
        END IF;
        DO get_lock(concat('hf_', my_bell), 5);
    END IF;
    SELECT concat(unhex(ousted), 'b'), cast(tag AS char), cast(fence AS char), '0' FROM hf_fence
        WHERE news = my_bell AND NOT instr(seen, concat(unhex(ousted), 'b'));
    IF found_rows() = 0 AND get_lock(concat('hf_', my_bell, '!'), wait_s) THEN
        DO release_lock(concat('hf_', my_bell, '!')), sleep(wait_s);
    END IF;
END
//

-- May this account do all that it takes? Nothing is changed.
CREATE PROCEDURE IF NOT EXISTS hf_row_rights_1()
SQL SECURITY INVOKER
BEGIN
    UPDATE hf_row SET expires_us = 0 WHERE false;
    UPDATE hf_fence SET fence = fence WHERE false;
    INSERT INTO hf_row (name, owner, expires_us) SELECT name, owner, expires_us FROM hf_row
        WHERE false;
    INSERT INTO hf_fence SELECT * FROM hf_fence WHERE false;
    DELETE FROM hf_row WHERE false;
END
//

DELIMITER ;
