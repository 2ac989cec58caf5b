# SPDX-License-Identifier: MIT OR Apache-2.0
# A database that is killed while it writes: what was said to be committed is there, and whole.
import os, signal, sqlite3, sys

path, seconds = sys.argv[1], float(sys.argv[2])
for mode in ["delete", "wal"]:
    name = f"{path}/{mode}.db"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        base = sqlite3.connect(name, isolation_level=None)
        base.execute(f"pragma journal_mode={mode}")
        base.execute("pragma synchronous=full")
        base.execute("create table of(number integer primary key, text)")
        number = 0
        while True:
            base.execute("begin")
            for _ in range(5):
                base.execute("insert into of values(?, ?)", (number, str(number) * 500))
                number += 1
            base.execute("commit")
            os.write(write, number.to_bytes(8, "little"))
    os.close(write)
    said, begun = 0, __import__("time").monotonic()
    while __import__("time").monotonic() < begun + seconds or said == 0:
        said = int.from_bytes(os.read(read, 8), "little")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while rest := os.read(read, 8):
        said = int.from_bytes(rest, "little")
    base = sqlite3.connect(name)
    count = base.execute("select count(*) from of").fetchone()[0]
    whole = base.execute("pragma integrity_check").fetchone()[0]
    texts = all(text == str(number) * 500 for number, text in base.execute("select * from of"))
    print(mode, whole, texts, count % 5, count - said in (0, 5), said > 0)
