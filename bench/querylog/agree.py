"""Compares random searches of the query log with DuckDB, and its rows with pyarrow.

Usage: agree.py FIGURES DIRECTORY [SEARCHES [SEED]], where FIGURES is the example of that name.
Needs duckdb; pyarrow reads every segment as well if it is installed.
"""

import glob
import random
import subprocess
import sys

import duckdb

PAGE = 100
TEXTS = ["qname", "client_address", "qtype", "rcode", "stage", "outcome", "rule", "upstream",
         "cache", "client_name"]


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def condition(chance, sample):
    """Returns a condition that an entry meets, as a word for us and as SQL."""
    kind = chance.randrange(5)
    if kind == 0:
        labels = sample["qname"].rstrip(".").split(".")
        zone = ".".join(labels[chance.randrange(len(labels)):]) + "."
        sql = f"(qname = {quoted(zone)} OR ends_with(qname, {quoted('.' + zone)}))"
        return f"under={zone}", sql
    if kind == 1 and sample["lists"]:
        word = chance.choice(sample["lists"])
        return f"lists={word}", f"list_contains(lists, {quoted(word)})"
    if kind == 2 and sample["client_groups"]:
        word = chance.choice(sample["client_groups"])
        return f"client_groups={word}", f"list_contains(client_groups, {quoted(word)})"
    column = chance.choice(TEXTS)
    return f"{column}={sample[column]}", f"{column} = {quoted(sample[column])}"


def main():
    figures, directory = sys.argv[1:3]
    searches = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    chance = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    segments = sorted(glob.glob(f"{directory}/*.parquet"))
    database = duckdb.connect()
    database.execute(f"CREATE VIEW log AS FROM read_parquet({segments!r})")
    count, first, last = database.execute(
        "SELECT count(*), min(epoch_us(time)), max(epoch_us(time)) FROM log").fetchone()
    names = ["qname", "lists", "client_groups", *TEXTS[1:]]
    words, statements = [], []
    for _ in range(searches):
        start = chance.randint(first, last)
        row = database.execute(f"""SELECT {', '.join(names)} FROM log
          WHERE epoch_us(time) >= {start} LIMIT 1""").fetchone()
        sample = dict(zip(names, row))
        conditions = [condition(chance, sample) for _ in range(chance.randint(1, 3))]
        if chance.randrange(2):
            begin = chance.randint(first, start)
            end = chance.randint(start + 1, last + 1)
            conditions += [(f"from={begin}", f"epoch_us(time) >= {begin}"),
                           (f"to={end}", f"epoch_us(time) < {end}")]
        words.append("\t".join(word for word, _ in conditions))
        statements.append(" AND ".join(sql for _, sql in conditions))
    found = subprocess.run([figures, "find", directory], input="\n".join(words) + "\n", text=True,
                           stdout=subprocess.PIPE, check=True).stdout.splitlines()
    assert len(found) == searches
    entries = 0
    for words_of, sql, line in zip(words, statements, found):
        total, ids = database.execute(
            f"SELECT count(*), max(id, {PAGE}) FROM log WHERE {sql}").fetchone()
        ours, our_ids = line.split(" ")
        expected = ",".join(str(number) for number in ids or [])
        assert (int(ours), our_ids) == (total, expected), (words_of, ours, total)
        entries += total
    print(f"searches that agree with DuckDB {duckdb.__version__} | {searches}")
    print(f"entries that they found | {entries}")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        print("segments that pyarrow reads | not installed")
        return
    rows = sum(pyarrow.parquet.read_table(path).num_rows for path in segments)
    assert rows == count, (rows, count)
    print(f"segments that pyarrow {pyarrow.__version__} reads | {len(segments)}")


main()
