-- fence.sql: how does a table keep out a writer whose lock is another's by now?
--
-- Every guarded row carries the greatest fence that ever wrote to it. The writer sends its own
-- (hf_grant_fence(), or $HOLDFAST_FENCE under `holdfast run`) with the write, and the row that is
-- updated is the answer: 1 row, written; 0 rows, refused, somebody came after this writer.
--
-- Runs as it is on SQLite (>= 3.8), PostgreSQL and MariaDB; the numbers stand where a program has
-- its parameters. Fences are below 2^62: BIGINT holds them all. Never keep them in a DOUBLE, nor in
-- JSON as a number.
--
-- MySQL and MariaDB count the rows that changed, not those that matched, unless the client asks for
-- the latter (CLIENT_FOUND_ROWS): a write that changes nothing looks refused. Ask for it, or let
-- every write change something, such as a version.

CREATE TABLE printer_queue (
    id    INTEGER      NOT NULL PRIMARY KEY,
    job   VARCHAR(100) NOT NULL,
    fence BIGINT       NOT NULL DEFAULT 0 -- the greatest that wrote here
);
INSERT INTO printer_queue (id, job) VALUES (1, 'empty');

-- A holder of fence 512 writes: 1 row.
UPDATE printer_queue SET job = 'written by 512', fence = 512 WHERE id = 1 AND fence <= 512;
SELECT 'after 512', job, fence FROM printer_queue;

-- It writes again within its turn, with the same fence: 1 row.
UPDATE printer_queue SET job = 'again by 512', fence = 512 WHERE id = 1 AND fence <= 512;
SELECT 'after 512 again', job, fence FROM printer_queue;

-- The holder before it, fence 256, was stopped in between and does not know: 0 rows.
UPDATE printer_queue SET job = 'too late', fence = 256 WHERE id = 1 AND fence <= 256;
SELECT 'after 256', job, fence FROM printer_queue;

-- A holder in shared mode compares, but does not raise: readers do not shut each other out.
UPDATE printer_queue SET job = 'noted by a shared 768' WHERE id = 1 AND fence <= 768;
SELECT 'after a shared 768', job, fence FROM printer_queue;

-- Writes that are not one row (inserts, several tables): one row stands for the whole resource. The
-- update locks it until the end of the transaction; if it gives 0 rows, roll back.
CREATE TABLE resource_fence (
    resource VARCHAR(100) NOT NULL PRIMARY KEY,
    fence    BIGINT       NOT NULL
);
INSERT INTO resource_fence (resource, fence) VALUES ('printer', 0);

BEGIN;
UPDATE resource_fence SET fence = 1024 WHERE resource = 'printer' AND fence <= 1024;
INSERT INTO printer_queue (id, job, fence) VALUES (2, 'inserted by 1024', 1024);
COMMIT;
SELECT 'after 1024', resource, fence FROM resource_fence;
