"""Runs on a client, in an empty directory of the mount: what programs expect of a file system."""
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH107, PTH115, PTH116, PTH123, PTH208, PTH211, S103, S311, S602
# the system calls themselves are tested, on a file system of the test

import errno
import fcntl
import mmap
import os
import random
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Callable


def refused(number: int, call: Callable[[], object]) -> None:
    """The call fails with this error."""
    actual = 0
    try:
        call()
    except OSError as error:
        actual = error.errno or 0
    assert actual == number, f"error {actual}, and should be {errno.errorcode[number]}"


def text(name: str) -> str:
    with open(name) as file:
        return file.read()


def write(name: str, content: str, flags: str = "w") -> None:
    with open(name, flags) as file:
        file.write(content)


def names_and_attributes() -> None:
    write("a", "hello\n")
    write("a", "world\n", "a")
    assert text("a") == "hello\nworld\n"
    os.truncate("a", 3)
    assert (text("a"), os.stat("a").st_size) == ("hel", 3)
    os.truncate("a", 1 << 20)
    assert os.stat("a").st_size == 1 << 20
    os.rename("a", "b")
    os.link("b", "c")
    os.symlink("b", "s")
    assert sorted(os.listdir()) == ["b", "c", "s"]
    assert (os.stat("b").st_nlink, os.readlink("s")) == (2, "b")
    os.chmod("b", 0o640)
    os.chown("b", 1234, 4321)
    os.utime("b", ns=(0, 981173106789000000))
    status = os.stat("b")
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 4321, 0o640)
    assert status.st_mtime_ns == 981173106789000000
    os.mkfifo("f")
    assert stat.S_ISFIFO(os.stat("f").st_mode)
    os.mkdir("d")
    write("d/x", "")
    refused(errno.ENOTEMPTY, lambda: os.rmdir("d"))
    os.remove("d/x")
    os.rmdir("d")
    refused(errno.ENOENT, lambda: os.stat("d"))
    os.close(os.open("e", os.O_CREAT | os.O_EXCL))
    refused(errno.EEXIST, lambda: os.open("e", os.O_CREAT | os.O_EXCL))
    for name in os.listdir():
        os.remove(name)


def open_files() -> None:
    with open("u", "w+") as file:
        file.write("x")
        file.flush()
        os.remove("u")
        file.write("y")
        file.seek(0)
        assert file.read() == "xy", "a removed file stays readable while it is open"
    # read-only from its creation, as git's objects
    file_descriptor = os.open("ro", os.O_CREAT | os.O_WRONLY, 0o444)
    os.write(file_descriptor, b"abc")
    os.close(file_descriptor)
    assert text("ro") == "abc"
    write("one", "one")
    write("two", "two")
    with open("two") as file:
        os.rename("one", "two")
        assert (file.read(), text("two")) == ("two", "one"), "rename over an open file"


def random_access() -> None:
    generator, model = random.Random(1), bytearray(3_000_000)
    file = os.open("random", os.O_CREAT | os.O_RDWR)
    os.ftruncate(file, len(model))
    for step in range(2000):
        offset, size = generator.randrange(len(model) - 70000), generator.choice([1, 100, 4096, 65536])
        if generator.random() < 0.6:
            data = generator.randbytes(size)
            model[offset : offset + size] = data
            assert os.pwrite(file, data, offset) == size
        else:
            assert os.pread(file, size, offset) == bytes(model[offset : offset + size]), (step, offset, size)
        if step % 500 == 499:
            os.fsync(file)
            os.ftruncate(file, len(model) - step)
            model[len(model) - step :] = bytes(step)
            os.ftruncate(file, len(model))
    os.close(file)
    with open("random", "rb") as read:
        assert read.read() == bytes(model)
    file = os.open("mapped", os.O_CREAT | os.O_RDWR)
    os.ftruncate(file, 100_000)
    with mmap.mmap(file, 100_000) as mapped:
        mapped[5000:5005] = b"12345"
    os.close(file)
    assert text("mapped")[5000:5005] == "12345"


def creation_by_several() -> None:
    """Processes that create a file at the same moment and append to it lose no line."""
    for number in range(80):
        name, (ready, start) = f"raced-{number}", os.pipe()
        children = []
        for child in range(4):
            if (pid := os.fork()) == 0:
                os.close(start)
                os.read(ready, 1)  # ends when all are there
                for line in range(5):
                    file = os.open(name, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
                    os.write(file, f"{child}-{line}\n".encode())
                    os.close(file)
                os._exit(0)
            children.append(pid)
        os.close(ready)
        os.close(start)
        for pid in children:
            assert os.waitpid(pid, 0)[1] == 0
        assert len(set(text(name).split())) == 20, (number, text(name))
        os.remove(name)


def several_processes() -> None:
    loop = "for p in 1 2 3 4; do (for i in $(seq 50); do echo $p-$i >> appended; done) & done; wait"
    subprocess.run(loop, shell=True, check=True)
    assert len(set(text("appended").split())) == 200
    for mode in "delete", "wal":
        name = f"{mode}.db"
        database = sqlite3.connect(name, timeout=60)
        database.execute(f"pragma journal_mode={mode}")
        database.execute("create table t(x)")
        database.commit()
        threads = [threading.Thread(target=insert, args=(name, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert database.execute("select count(distinct x) from t").fetchone() == (40,)
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
        database.close()


def insert(name: str, thread: int) -> None:
    own = sqlite3.connect(name, timeout=60)
    for number in range(10):
        own.execute("insert into t values(?)", (thread * 100 + number,))
        own.commit()
    own.close()


def directories() -> None:
    os.mkdir("big")
    for number in range(1500):
        write(f"big/{number:05d}", "")
    assert sorted(os.listdir("big")) == [f"{number:05d}" for number in range(1500)]
    for number in range(0, 1500, 2):
        os.remove(f"big/{number:05d}")
    assert len(os.listdir("big")) == 750


def users() -> None:
    os.mkdir("group")
    os.chown("group", 0, 5555)
    os.chmod("group", 0o770)
    member = subprocess.run(["sh", "-c", "echo x >group/mine"], user=1000, group=1000, extra_groups=[5555], check=False)
    other = subprocess.run(["sh", "-c", "echo x >group/other"], user=1001, group=1001, extra_groups=[], check=False)
    assert (member.returncode, other.returncode != 0) == (0, True)
    assert os.stat("group/mine").st_uid == 1000


def locks() -> None:
    write("lock", "")
    with open("lock", "r+") as file:
        for kind in fcntl.lockf, fcntl.flock:
            kind(file, fcntl.LOCK_EX)
            program = f"import fcntl; fcntl.{kind.__name__}(open('lock', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
            assert subprocess.run(["python3", "-c", program], stderr=subprocess.PIPE, check=False).returncode != 0
            kind(file, fcntl.LOCK_UN)
            subprocess.run(["python3", "-c", program], check=True)


for part in (
    names_and_attributes,
    open_files,
    random_access,
    creation_by_several,
    several_processes,
    directories,
    users,
    locks,
):
    part()
