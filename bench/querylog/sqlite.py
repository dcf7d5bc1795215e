"""Writes the rows of the trace to SQLite with the schema of Pi-hole's long-term database, and searches.

Usage: sqlite.py DATABASE < rows. Lines of output are `row | figure`. The tables and indexes have
the columns of Pi-hole v6; each statement is what its query log needs.
"""

import sqlite3
import sys
import time

SCHEMA = """
CREATE TABLE domain_by_id (id INTEGER PRIMARY KEY, domain TEXT NOT NULL);
CREATE UNIQUE INDEX domain_by_id_domain ON domain_by_id (domain);
CREATE TABLE client_by_id (id INTEGER PRIMARY KEY, ip TEXT NOT NULL, name TEXT);
CREATE UNIQUE INDEX client_by_id_client ON client_by_id (ip, name);
CREATE TABLE forward_by_id (id INTEGER PRIMARY KEY, forward TEXT NOT NULL);
CREATE UNIQUE INDEX forward_by_id_forward ON forward_by_id (forward);
CREATE TABLE query_storage (
  id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp INTEGER NOT NULL, type INTEGER NOT NULL,
  status INTEGER NOT NULL, domain INTEGER NOT NULL, client INTEGER NOT NULL, forward INTEGER,
  additional_info INTEGER, reply_type INTEGER, reply_time REAL, dnssec INTEGER, list_id INTEGER,
  ede INTEGER);
CREATE INDEX idx_queries_timestamps ON query_storage (timestamp);
"""
INSERT = """INSERT INTO query_storage
  (timestamp, type, status, domain, client, forward, reply_type, reply_time, dnssec, list_id)
  VALUES (?, ?, ?, ?, ?, ?, 4, ?, 0, ?)"""
BATCH = 50_000
PAGE = """SELECT q.id, q.timestamp, d.domain, c.ip FROM query_storage q
  JOIN domain_by_id d ON d.id = q.domain JOIN client_by_id c ON c.id = q.client
  WHERE {} ORDER BY q.id DESC LIMIT 100"""
ROUNDS = 3


def show(row, figure):
    print(f"{row} | {figure}", flush=True)


class Ids:
    """The numbers of texts in one of the small tables."""

    def __init__(self, database, insert):
        self.database, self.insert, self.known = database, insert, {}

    def of(self, text):
        number = self.known.get(text)
        if number is None:
            number = self.known[text] = len(self.known) + 1
            self.database.execute(self.insert, (number, text))
        return number


def fill(database):
    names = Ids(database, "INSERT INTO domain_by_id VALUES (?, ?)")
    clients = Ids(database, "INSERT INTO client_by_id VALUES (?, ?, '')")
    forwards = Ids(database, "INSERT INTO forward_by_id VALUES (?, ?)")
    waiting, count, spent = [], 0, 0.0

    def write():
        nonlocal spent
        start = time.thread_time()
        database.executemany(INSERT, waiting)
        database.commit()
        spent += time.thread_time() - start
        waiting.clear()

    for line in sys.stdin:
        when, kind, status, name, client, forward, rule, delay = line.rstrip("\n").split("\t")
        forward = None if forward == "0" else forwards.of(f"9.9.9.{forward}#53")
        rule = None if rule == "0" else int(rule)
        waiting.append((float(when), int(kind), int(status), names.of(name), clients.of(client),
                        forward, float(delay), rule))
        count += 1
        if len(waiting) == BATCH:
            write()
    write()
    return count, spent


def measure(database, row, statement, values):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        database.execute(statement, values).fetchall()
        times.append(time.perf_counter() - start)
    show(f"{row}, ms", f"{sorted(times)[ROUNDS // 2] * 1e3:.1f}")


def main():
    path = sys.argv[1]
    database = sqlite3.connect(path)
    database.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;" + SCHEMA)
    count, spent = fill(database)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    size = database.execute("PRAGMA page_size").fetchone()[0]
    show("octets an entry", f"{pages * size / count:.1f}")
    show("entries a second of CPU time", f"{count / spent:.0f}")
    ranked = database.execute(
        "SELECT domain FROM query_storage GROUP BY domain ORDER BY count(*) DESC").fetchall()
    for rank in (1, 101, 10_001, 100_001, 199_001):
        if rank <= len(ranked):
            measure(database, f"first page by name, rank {rank}", PAGE.format("q.domain = ?"),
                    ranked[rank - 1])
    absent = "q.domain = (SELECT id FROM domain_by_id WHERE domain = ?)"
    measure(database, "first page by name that is absent", PAGE.format(absent), ["absent.example"])
    client = "q.client = (SELECT id FROM client_by_id WHERE ip = ?)"
    measure(database, "first page by client, the first", PAGE.format(client), ["192.168.0.0"])
    measure(database, "first page by client, the last", PAGE.format(client), ["192.168.1.243"])
    measure(database, "first page by list", PAGE.format("q.list_id = ?"), [5])
    measure(database, "first page by outcome", PAGE.format("q.status = ?"), [1])
    measure(database, "first page by outcome that is absent", PAGE.format("q.status = ?"), [9])
    day = database.execute("SELECT max(timestamp) - 86400 FROM query_storage").fetchone()
    measure(database, "first page of the last 24 h", PAGE.format("q.timestamp >= ?"), day)
    measure(database, "count of the last 24 h",
            "SELECT count(*) FROM query_storage WHERE timestamp >= ?", day)
    below = """SELECT count(*) FROM query_storage WHERE domain IN
      (SELECT id FROM domain_by_id WHERE domain = ?1 OR domain LIKE '%.' || ?1)"""
    name = database.execute("SELECT domain FROM domain_by_id WHERE id = ?", ranked[1]).fetchone()
    measure(database, "count of all entries below a top level domain", below, ["com"])
    measure(database, "count of all entries below a name", below, name)
    measure(database, "overview of the last 24 h", """SELECT d.domain, count(*) FROM query_storage q
      JOIN domain_by_id d ON d.id = q.domain WHERE q.timestamp >= ?
      GROUP BY q.domain ORDER BY 2 DESC LIMIT 10""", day)


main()
