-- What recipes have in common whose locks are a session's: every name has a row in hf_fence, for
-- ever, and whoever holds it one in hf_session.

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

-- session: the number of the connection. ends_us: set by the first who had the lock and found this
-- row, whose session was over then: when its lease must have ended. news: its bell, of who was
-- broken.
CREATE TABLE IF NOT EXISTS hf_session (
    kind varbinary(64) NOT NULL,
    name varbinary(1024) NOT NULL,
    token binary(16) NOT NULL,
    session bigint unsigned NOT NULL,
    fence bigint unsigned NOT NULL,
    broken boolean NOT NULL DEFAULT false,
    lease_us bigint NOT NULL,
    ends_us bigint NOT NULL DEFAULT 0,
    since_us bigint NOT NULL,
    bell varbinary(16) NOT NULL,
    tag bigint unsigned NOT NULL,
    news varbinary(16),
    who varbinary(512) NOT NULL,
    PRIMARY KEY (kind, name),
    KEY hf_session_news (news)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//

-- "refused", how many are ahead, three numbers that mean nothing here, the holder's fence, another
-- such number, and who that is.
CREATE PROCEDURE IF NOT EXISTS hf_session_busy_1(its_kind varbinary(64), lock_name varbinary(1024))
SQL SECURITY INVOKER
    SELECT coalesce((SELECT concat('refused 1 0 0 0 ', fence, ' 0 ', hex(who)) FROM hf_session
        WHERE kind = its_kind AND name = lock_name), 'refused 1 0 0 0 0 0 ')
//

-- The lock is ours. Whoever is written down as holding it has died with its session, and may
-- believe in its lease until that must have ended: "wait" and for how many ms.
CREATE PROCEDURE IF NOT EXISTS hf_session_draw_1(its_kind varbinary(64),
    lock_name varbinary(1024), mine binary(16), its_session bigint unsigned, lease bigint,
    my_bell varbinary(16), my_tag bigint unsigned, my_who varbinary(512),
    OUT answer varbinary(64))
SQL SECURITY INVOKER
body: BEGIN
    DECLARE known_fence bigint unsigned;
    DECLARE held_token binary(16);
    DECLARE instant, held_lease, held_ends bigint;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    ROLLBACK; -- whatever a statement that was killed has left
    START TRANSACTION;
    INSERT INTO hf_fence (kind, name, fence) VALUES (its_kind, lock_name, 0)
        ON DUPLICATE KEY UPDATE fence = fence;
    SELECT fence INTO known_fence FROM hf_fence WHERE kind = its_kind AND name = lock_name
        FOR UPDATE;
    SELECT token, lease_us, ends_us INTO held_token, held_lease, held_ends FROM hf_session
        WHERE kind = its_kind AND name = lock_name FOR UPDATE;
    SET instant = timestampdiff(MICROSECOND, '1970-01-01', sysdate(6));
    IF held_token <> mine THEN
        IF held_ends = 0 OR held_ends > instant + held_lease THEN
            SET held_ends = instant + held_lease;
            UPDATE hf_session SET ends_us = held_ends WHERE kind = its_kind AND name = lock_name;
        END IF;
        IF held_ends > instant THEN
            COMMIT;
            SET answer = concat('wait ', (held_ends - instant + 999) DIV 1000);
            LEAVE body;
        END IF;
    END IF;
    IF known_fence >= 4611686018427387648 THEN
        COMMIT;
        SET answer = 'spent';
        LEAVE body;
    END IF;
    UPDATE hf_fence SET fence = known_fence + 256 WHERE kind = its_kind AND name = lock_name;
    REPLACE INTO hf_session (kind, name, token, session, fence, lease_us, since_us, bell, tag, who)
        VALUES (its_kind, lock_name, mine, its_session, known_fence + 256, lease, instant, my_bell,
            my_tag, my_who);
    COMMIT;
    SET answer = concat('granted ', known_fence + 256, ' 0');
END
//

CREATE PROCEDURE IF NOT EXISTS hf_session_enter_1(its_kind varbinary(64),
    lock_name varbinary(1024), its_key varbinary(192), mine binary(16),
    its_session bigint unsigned, lease bigint, my_bell varbinary(16), my_tag bigint unsigned,
    my_who varbinary(512))
SQL SECURITY INVOKER
BEGIN
    DECLARE answer varbinary(64);
    CALL hf_session_draw_1(its_kind, lock_name, mine, its_session, lease, my_bell, my_tag, my_who,
        answer);
    SELECT answer;
END
//

-- Nobody believes in it any more, and its session is over.
CREATE PROCEDURE IF NOT EXISTS hf_session_forget_1(its_kind varbinary(64),
    lock_name varbinary(1024), mine binary(16), with_fence bigint unsigned)
SQL SECURITY INVOKER
BEGIN
    DELETE FROM hf_session WHERE kind = its_kind AND name = lock_name AND token = mine;
    SELECT 'gone 0 1';
END
//

-- Are they still ours? The session has them; who was broken is told. Nothing is changed, or
-- locked (as SET x = (SELECT ...) would), for this may be a part of a transaction that stays open.
CREATE PROCEDURE IF NOT EXISTS hf_session_together_1(its_kind varbinary(64), renewing boolean,
    items mediumblob)
SQL SECURITY INVOKER
BEGIN
    DECLARE at, size int DEFAULT 1;
    DECLARE answers mediumblob DEFAULT '';
    DECLARE answer varbinary(64);
    DECLARE lock_name varbinary(1024);
    WHILE at < length(items) DO
        SET size = conv(hex(substring(items, at, 2)), 16, 10);
        SET lock_name = substring(items, at + 2, size);
        SET at = at + 2 + size;
        SET answer = 'gone';
        SELECT if(broken, 'gone broken', concat('granted ', fence, ' 0')) INTO answer
            FROM hf_session WHERE kind = its_kind AND name = lock_name
                AND token = substring(items, at, 16);
        SET answers = concat(answers, answer, '\n');
        SET at = at + 25;
    END WHILE;
    SELECT answers;
END
//

-- As in the recipe row: whoever has one of these bells is woken.
CREATE PROCEDURE IF NOT EXISTS hf_session_ring_1(bell varbinary(16))
SQL SECURITY INVOKER
BEGIN
    DECLARE listener bigint unsigned DEFAULT is_used_lock(concat('hf_', bell));
    DECLARE CONTINUE HANDLER FOR 1094, 1095 BEGIN END; -- it has gone; it is another account's
    IF listener IS NOT NULL THEN
        KILL QUERY listener;
    END IF;
END
//

-- The turn with this fence is over: its holder is told, and gives it back.
CREATE PROCEDURE IF NOT EXISTS hf_session_break_1(its_kind varbinary(64),
    lock_name varbinary(1024), with_fence bigint unsigned)
SQL SECURITY INVOKER
BEGIN
    DECLARE known_bell varbinary(16);
    DECLARE changed int;
    SELECT bell INTO known_bell FROM hf_session WHERE kind = its_kind AND name = lock_name;
    UPDATE hf_session SET broken = true, news = bell
        WHERE kind = its_kind AND name = lock_name AND fence = with_fence AND NOT broken;
    SET changed = row_count();
    IF changed > 0 THEN
        CALL hf_session_ring_1(known_bell);
    END IF;
    SELECT if(changed > 0, 'done', 'gone');
END
//

-- What has been broken of this client's, except what it has seen; if there is nothing, it waits
-- until somebody rings. As in the recipe queue.
CREATE PROCEDURE IF NOT EXISTS hf_session_listen_1(its_kind varbinary(64),
    my_bell varbinary(16), seen varbinary(2048), wait_s int)
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
    SELECT concat(token, 'b'), cast(tag AS char), cast(fence AS char), '0' FROM hf_session
        WHERE news = my_bell AND kind = its_kind AND NOT instr(seen, concat(token, 'b'));
    IF found_rows() = 0 AND get_lock(concat('hf_', my_bell, '!'), wait_s) THEN
        DO release_lock(concat('hf_', my_bell, '!')), sleep(wait_s);
    END IF;
END
//

-- May this account do all that it takes? Nothing is changed.
CREATE PROCEDURE IF NOT EXISTS hf_session_rights_1()
SQL SECURITY INVOKER
BEGIN
    UPDATE hf_fence SET fence = fence WHERE false;
    UPDATE hf_session SET fence = fence WHERE false;
    INSERT INTO hf_fence SELECT * FROM hf_fence WHERE false;
    INSERT INTO hf_session SELECT * FROM hf_session WHERE false;
    DELETE FROM hf_session WHERE false;
END
//

DELIMITER ;
