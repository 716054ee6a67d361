-- Locks of holdfast, recipe named, for the command-line client of MariaDB or MySQL. The lock is the
-- server's own: GET_LOCK with its name, which any program may use. Whoever uses locks needs SELECT,
-- INSERT, UPDATE, DELETE on both tables, and EXECUTE.

DELIMITER //

-- Take it if it is free; with its fence, or not at all.
CREATE PROCEDURE IF NOT EXISTS hf_named_try_1(lock_name varbinary(1024), its_key varbinary(192),
    mine binary(16), its_session bigint unsigned, lease bigint, my_bell varbinary(16),
    my_tag bigint unsigned, my_who varbinary(512), latest bigint)
SQL SECURITY INVOKER
body: BEGIN
    DECLARE answer varbinary(64);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        DO release_lock(its_key);
        RESIGNAL;
    END;
    IF timestampdiff(MICROSECOND, '1970-01-01', sysdate(6)) > latest THEN
        SELECT 'stale'; -- whoever sent this has given up long ago
        LEAVE body;
    END IF;
    IF coalesce(get_lock(its_key, 0), 0) = 0 THEN
        CALL hf_session_busy_1('hf_named', lock_name);
        LEAVE body;
    END IF;
    CALL hf_session_draw_1('hf_named', lock_name, mine, its_session, lease, my_bell, my_tag,
        my_who, answer);
    IF answer LIKE 'wait %' THEN
        DO release_lock(its_key);
        CALL hf_session_busy_1('hf_named', lock_name);
        LEAVE body;
    END IF;
    IF answer = 'spent' THEN
        DO release_lock(its_key);
    END IF;
    SELECT answer;
END
//

CREATE PROCEDURE IF NOT EXISTS hf_named_leave_1(lock_name varbinary(1024),
    its_key varbinary(192), mine binary(16))
SQL SECURITY INVOKER
BEGIN
    DECLARE was_broken boolean DEFAULT true;
    SELECT broken INTO was_broken FROM hf_session
        WHERE kind = 'hf_named' AND name = lock_name AND token = mine;
    DELETE FROM hf_session WHERE kind = 'hf_named' AND name = lock_name AND token = mine;
    SELECT concat('gone ', coalesce(release_lock(its_key), 0) = 1 AND NOT was_broken, ' 1');
END
//

-- As the last of its own: where this is there, all of them are.
CREATE PROCEDURE IF NOT EXISTS hf_named_rights_1()
SQL SECURITY INVOKER
    CALL hf_session_rights_1()
//

