-- A store of version 1, as the first layout had it: no check columns.
PRAGMA page_size=4096;
PRAGMA auto_vacuum=INCREMENTAL;
PRAGMA application_id=1279872850;
CREATE TABLE m(id INTEGER PRIMARY KEY, q INTEGER NOT NULL, l INTEGER NOT NULL, n INTEGER NOT NULL,
  e INTEGER NOT NULL, t REAL NOT NULL, a INTEGER NOT NULL, v INTEGER NOT NULL, u REAL NOT NULL,
  hdr BLOB NOT NULL, body BLOB NOT NULL);
CREATE UNIQUE INDEX m_position ON m(q, l, n, e);
CREATE TABLE queue(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, definition TEXT NOT NULL);
CREATE TABLE state(kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY(kind, key)) WITHOUT ROWID;
INSERT INTO queue VALUES (1, 'private', 'orders', '{"transactional":true}');
INSERT INTO state VALUES ('counter', 'lookup', x'0700');
-- label "hi", body "B": the header is version 1, CRC-32, field 1
INSERT INTO m VALUES (1, 1, 288230376151711751, 125, 0, 1000.5, 1, 2, 999.5, x'CRC', x'42');
PRAGMA user_version=1;
