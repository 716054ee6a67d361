-- Locks of holdfast, recipe version, for the command-line client of MariaDB or MySQL. A row in
-- hf_version whose status is not 0 is a lock that somebody holds. Any program may take one that is
-- 0, and give its own back, by an UPDATE that adds 1 to the version and changes the row only if the
-- version is the one that it has read. What only holdfast needs is beside it in hf_fence, for ever.
-- Whoever uses locks needs SELECT, INSERT, UPDATE on both tables, and EXECUTE.

DELIMITER //

CREATE TABLE IF NOT EXISTS hf_version (
    name varbinary(1024) NOT NULL PRIMARY KEY,
    status int NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 0
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//

-- As in the recipe row. version: that our holder gave the row. grace_us: for how long a holder that
-- is broken may go on; from then on, until when.
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

-- The row, as it is now; made where there is none. A table of another program has names that are
-- text: compared as such, or its index would be of no use.
CREATE PROCEDURE IF NOT EXISTS hf_version_read_1(lock_name varbinary(1024),
    OUT found varbinary(4096), OUT held_status int, OUT held_version bigint)
SQL SECURITY INVOKER
BEGIN
    DECLARE wanted varchar(1024) CHARACTER SET utf8mb4;
    DECLARE tries int DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR 1062 BEGIN END; -- somebody else was faster
    WHILE found IS NULL AND tries < 2 DO
        IF 'hf_version' = concat('hf_', 'version') THEN
            IF tries > 0 THEN
                INSERT INTO hf_version (name, status, version) VALUES (lock_name, 0, 0);
            END IF;
            SELECT name, status, version INTO found, held_status, held_version FROM hf_version
                WHERE name = lock_name;
        ELSE
            SET wanted = convert(lock_name USING utf8mb4);
            IF tries > 0 THEN
                INSERT INTO hf_version (name, status, version) VALUES (wanted, 0, 0);
            END IF;
            SELECT convert(name USING utf8mb4), status, version
                INTO found, held_status, held_version FROM hf_version WHERE name = wanted;
        END IF;
        SET tries = tries + 1;
    END WHILE;
END
//

-- Only if nobody else was faster.
CREATE PROCEDURE IF NOT EXISTS hf_version_change_1(lock_name varbinary(1024), old bigint,
    taken boolean, OUT changed int)
SQL SECURITY INVOKER
BEGIN
    DECLARE wanted varchar(1024) CHARACTER SET utf8mb4;
    IF 'hf_version' = concat('hf_', 'version') THEN
        UPDATE hf_version SET status = taken, version = version + 1
            WHERE name = lock_name AND version = old AND (status <> 0) <> taken;
    ELSE
        SET wanted = convert(lock_name USING utf8mb4);
        UPDATE hf_version SET status = taken, version = version + 1
            WHERE name = wanted AND version = old AND (status <> 0) <> taken;
    END IF;
    SET changed = row_count();
END
//

-- Take it if it is free; once more: has this token got it? The parameters are those of every
-- recipe.
CREATE PROCEDURE IF NOT EXISTS hf_version_claim_1(lock_name varbinary(1024), mine binary(16),
    sharing boolean, queueing boolean, lease bigint, grace bigint, latest bigint,
    my_bell varbinary(16), my_tag bigint unsigned, my_who varbinary(512))
SQL SECURITY INVOKER
body: BEGIN
    DECLARE me, known_owner varbinary(64);
    DECLARE instant, held_version, known_version, known_grace bigint;
    DECLARE known_fence bigint unsigned;
    DECLARE known_broken, is_ours boolean;
    DECLARE known_who varbinary(512);
    DECLARE found varbinary(4096);
    DECLARE held_status int;
    DECLARE changed int DEFAULT 0;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    SET me = lower(hex(mine));
    ROLLBACK; -- whatever a statement that was killed has left
    START TRANSACTION;
    INSERT INTO hf_fence (kind, name, fence) VALUES ('hf_version', lock_name, 0)
        ON DUPLICATE KEY UPDATE fence = fence;
    SELECT fence, owner, broken, who, version, grace_us
        INTO known_fence, known_owner, known_broken, known_who, known_version, known_grace
        FROM hf_fence WHERE kind = 'hf_version' AND name = lock_name FOR UPDATE;
    CALL hf_version_read_1(lock_name, found, held_status, held_version);
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF instant > latest THEN -- whoever sent this has given up long ago
        COMMIT;
        SELECT 'stale';
        LEAVE body;
    END IF;
    IF found <> lock_name THEN
        ROLLBACK;
        SELECT 'mixed';
        LEAVE body;
    END IF;
    SET is_ours = known_owner <> '' AND held_status <> 0 AND held_version = known_version;
    IF is_ours AND known_owner = me THEN
        COMMIT;
        SELECT if(known_broken, 'gone broken', concat('granted ', known_fence, ' 0'));
        LEAVE body;
    END IF;
    IF known_fence >= 4611686018427387648 THEN
        COMMIT;
        SELECT 'spent';
        LEAVE body;
    END IF;
    IF is_ours AND known_broken AND instant >= known_grace THEN
        CALL hf_version_change_1(lock_name, held_version, false, changed);
        IF changed > 0 THEN
            SET held_status = 0, held_version = held_version + 1;
        END IF;
    END IF;
    IF held_status = 0 THEN
        CALL hf_version_change_1(lock_name, held_version, true, changed);
    ELSE
        SET changed = 0;
    END IF;
    IF changed = 0 THEN
        COMMIT;
        SELECT concat('refused 1 0 0 ', known_fence, ' ', if(is_ours, known_fence, 0), ' 0 ',
            if(is_ours, hex(known_who), ''));
        LEAVE body;
    END IF;
    UPDATE hf_fence SET fence = known_fence + 256, owner = me, broken = false, grace_us = grace,
        since_us = instant, bell = my_bell, tag = my_tag, news = NULL, who = my_who,
        version = held_version + 1 WHERE kind = 'hf_version' AND name = lock_name;
    COMMIT;
    SELECT concat('granted ', known_fence + 256, ' 0');
END
//

-- Out. What was held, was held with this fence (0: whichever), or it was taken away.
CREATE PROCEDURE IF NOT EXISTS hf_version_release_1(lock_name varbinary(1024), mine binary(16),
    with_fence bigint unsigned)
SQL SECURITY INVOKER
BEGIN
    DECLARE me, known_owner varbinary(64);
    DECLARE known_version bigint;
    DECLARE known_fence bigint unsigned;
    DECLARE known_broken boolean;
    DECLARE changed int DEFAULT 0;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    SET me = lower(hex(mine));
    ROLLBACK;
    START TRANSACTION;
    SELECT fence, owner, broken, version
        INTO known_fence, known_owner, known_broken, known_version
        FROM hf_fence WHERE kind = 'hf_version' AND name = lock_name FOR UPDATE;
    IF known_owner = me THEN
        CALL hf_version_change_1(lock_name, known_version, false, changed);
        UPDATE hf_fence SET owner = '', news = NULL
            WHERE kind = 'hf_version' AND name = lock_name;
    END IF;
    COMMIT;
    SELECT concat('gone ', coalesce(changed > 0 AND NOT known_broken
        AND with_fence IN (0, known_fence), false), ' 1');
END
//

-- Are they still ours?
CREATE PROCEDURE IF NOT EXISTS hf_version_together_1(renewing boolean, items mediumblob)
SQL SECURITY INVOKER
BEGIN
    DECLARE at, size int DEFAULT 1;
    DECLARE lock_name varbinary(1024);
    DECLARE me, known_owner, known_ousted varbinary(64);
    DECLARE known_fence bigint unsigned;
    DECLARE known_version, held_version bigint;
    DECLARE held_status int;
    DECLARE found varbinary(4096);
    DECLARE answers mediumblob DEFAULT '';
    WHILE at < length(items) DO
        SET size = conv(hex(substring(items, at, 2)), 16, 10);
        SET lock_name = substring(items, at + 2, size);
        SET at = at + 2 + size;
        SET me = lower(hex(substring(items, at, 16)));
        SET at = at + 25;
        SET known_owner = '', known_ousted = '';
        SELECT fence, owner, ousted, version
            INTO known_fence, known_owner, known_ousted, known_version
            FROM hf_fence WHERE kind = 'hf_version' AND name = lock_name;
        CALL hf_version_read_1(lock_name, found, held_status, held_version);
        SET answers = concat(answers, CASE WHEN known_ousted = me THEN 'gone broken'
            WHEN known_owner = me AND held_status <> 0 AND held_version = known_version
            THEN concat('granted ', known_fence, ' 0') ELSE 'gone' END, '\n');
    END WHILE;
    SELECT answers;
END
//

-- As in the recipe row: whoever has this bell is woken.
CREATE PROCEDURE IF NOT EXISTS hf_version_ring_1(bell varbinary(16))
SQL SECURITY INVOKER
BEGIN
    DECLARE listener bigint unsigned DEFAULT is_used_lock(concat('hf_', bell));
    DECLARE CONTINUE HANDLER FOR 1094, 1095 BEGIN END; -- it has gone; it is another account's
    IF listener IS NOT NULL THEN
        KILL QUERY listener;
    END IF;
END
//

-- The turn with this fence is over; its holder is told. If it has a grace, the next can get in
-- when it has left, or when the grace is over.
CREATE PROCEDURE IF NOT EXISTS hf_version_break_1(lock_name varbinary(1024),
    with_fence bigint unsigned)
SQL SECURITY INVOKER
body: BEGIN
    DECLARE known_owner varbinary(64);
    DECLARE known_bell varbinary(16);
    DECLARE instant, held_version, known_version, known_grace bigint;
    DECLARE known_fence bigint unsigned;
    DECLARE known_broken boolean;
    DECLARE found varbinary(4096);
    DECLARE held_status, changed int;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    ROLLBACK;
    START TRANSACTION;
    SELECT fence, owner, broken, grace_us, bell, version
        INTO known_fence, known_owner, known_broken, known_grace, known_bell, known_version
        FROM hf_fence WHERE kind = 'hf_version' AND name = lock_name FOR UPDATE;
    CALL hf_version_read_1(lock_name, found, held_status, held_version);
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF known_owner IS NULL OR known_owner = '' OR held_status = 0 OR held_version <> known_version
        OR known_fence <> with_fence OR known_broken THEN
        COMMIT;
        SELECT 'gone';
        LEAVE body;
    END IF;
    UPDATE hf_fence SET broken = true, ousted = known_owner, news = bell,
        grace_us = instant + known_grace WHERE kind = 'hf_version' AND name = lock_name;
    IF known_grace = 0 THEN
        CALL hf_version_change_1(lock_name, held_version, false, changed);
    END IF;
    COMMIT;
    CALL hf_version_ring_1(known_bell);
    SELECT 'done';
END
//

-- What has been broken of this client's, except what it has seen; if there is nothing, it waits
-- until somebody rings. As in the recipe queue.
CREATE PROCEDURE IF NOT EXISTS hf_version_listen_1(my_bell varbinary(16), seen varbinary(2048),
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
        WHERE kind = 'hf_version' AND news = my_bell
            AND NOT instr(seen, concat(unhex(ousted), 'b'));
    IF found_rows() = 0 AND get_lock(concat('hf_', my_bell, '!'), wait_s) THEN
        DO release_lock(concat('hf_', my_bell, '!')), sleep(wait_s);
    END IF;
END
//

-- May this account do all that it takes? Nothing is changed.
CREATE PROCEDURE IF NOT EXISTS hf_version_rights_1()
SQL SECURITY INVOKER
BEGIN
    UPDATE hf_version SET status = 0, version = 0 WHERE false;
    UPDATE hf_fence SET fence = fence WHERE false;
    INSERT INTO hf_version (name, status, version) SELECT name, status, version FROM hf_version
        WHERE false;
    INSERT INTO hf_fence SELECT * FROM hf_fence WHERE false;
END
//

DELIMITER ;
