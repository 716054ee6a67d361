-- Locks of holdfast, recipe for-update, for the command-line client of MariaDB or MySQL. Who has
-- locked the row of a name in hf_for_update by SELECT ... FOR UPDATE, in a transaction that is
-- open, holds the lock: any program may. Whoever uses locks needs SELECT, INSERT, UPDATE, DELETE on
-- the tables, and EXECUTE.

DELIMITER //

CREATE TABLE IF NOT EXISTS hf_for_update (
    name varbinary(1024) NOT NULL PRIMARY KEY
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//

-- Is there a row to lock? A table of another program has names that are text: compared as such, or
-- its index would be of no use, and other rows would be waited for. To look must not lock:
-- IF EXISTS (SELECT ...) would, and so does INSERT where the row is there.
CREATE PROCEDURE IF NOT EXISTS hf_for_update_meet_1(lock_name varbinary(1024))
SQL SECURITY INVOKER
BEGIN
    DECLARE wanted varchar(1024) CHARACTER SET utf8mb4;
    DECLARE met int;
    DECLARE CONTINUE HANDLER FOR 1062, 1205 BEGIN END; -- somebody else was faster, or has it by now
    IF 'hf_for_update' = concat('hf_', 'for_update') THEN
        SELECT count(*) INTO met FROM hf_for_update WHERE name = lock_name;
        IF met = 0 THEN
            INSERT INTO hf_for_update (name) VALUES (lock_name);
        END IF;
    ELSE
        SET wanted = convert(lock_name USING utf8mb4);
        SELECT count(*) INTO met FROM hf_for_update WHERE name = wanted;
        IF met = 0 THEN
            INSERT INTO hf_for_update (name) VALUES (wanted);
        END IF;
    END IF;
END
//

-- Locks it, and leaves the transaction open.
CREATE PROCEDURE IF NOT EXISTS hf_for_update_lock_1(lock_name varbinary(1024), wait_s int,
    latest bigint)
SQL SECURITY INVOKER
body: BEGIN
    DECLARE wanted varchar(1024) CHARACTER SET utf8mb4;
    DECLARE found varbinary(4096);
    DECLARE EXIT HANDLER FOR 1205
    BEGIN
        ROLLBACK;
        CALL hf_session_busy_1('hf_for_update', lock_name);
    END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    ROLLBACK;
    IF timestampdiff(MICROSECOND, '1970-01-01', sysdate(6)) > latest THEN
        SELECT 'stale';
        LEAVE body;
    END IF;
    SET SESSION innodb_lock_wait_timeout = wait_s; -- MySQL makes one second of none
    CALL hf_for_update_meet_1(lock_name);
    START TRANSACTION;
    IF 'hf_for_update' = concat('hf_', 'for_update') THEN
        SELECT name INTO found FROM hf_for_update WHERE name = lock_name FOR UPDATE;
    ELSE
        SET wanted = convert(lock_name USING utf8mb4);
        SELECT convert(name USING utf8mb4) INTO found FROM hf_for_update WHERE name = wanted
            FOR UPDATE;
    END IF;
    IF found IS NULL THEN -- somebody has deleted it since
        ROLLBACK;
        CALL hf_session_busy_1('hf_for_update', lock_name);
    ELSEIF found <> lock_name THEN
        ROLLBACK;
        SELECT 'mixed';
    ELSE
        SELECT 'locked';
    END IF;
END
//

-- Both at once: the lock is given back, and nobody is written down as its holder.
CREATE PROCEDURE IF NOT EXISTS hf_for_update_leave_1(lock_name varbinary(1024),
    its_key varbinary(192), mine binary(16))
SQL SECURITY INVOKER
BEGIN
    DECLARE was_broken boolean DEFAULT true;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    SET SESSION innodb_lock_wait_timeout = 10; -- a try has none
    SELECT broken INTO was_broken FROM hf_session
        WHERE kind = 'hf_for_update' AND name = lock_name AND token = mine;
    DELETE FROM hf_session WHERE kind = 'hf_for_update' AND name = lock_name AND token = mine;
    COMMIT;
    SELECT concat('gone ', NOT was_broken, ' 1');
END
//

CREATE PROCEDURE IF NOT EXISTS hf_for_update_rights_1()
SQL SECURITY INVOKER
BEGIN
    UPDATE hf_for_update SET name = name WHERE false;
    INSERT INTO hf_for_update (name) SELECT name FROM hf_for_update WHERE false;
    CALL hf_session_rights_1();
END
//

