"""Keeps measurements in SQLite."""

import sqlite3
import threading


class Store:
    """A database of measurements. What keep has returned from outlives a power cut."""

    def __init__(self, path, most):
        self.lock, self.most = threading.Lock(), most
        self.db = sqlite3.connect(path, check_same_thread=False)
        # With full, SQLite may take the last commit back after a power cut: https://sqlite.org/pragma.html
        self.db.execute("pragma synchronous = extra")
        self.db.execute("create table if not exists measurement (id integer primary key, series text, value real)")
        self.db.commit()

    def keep(self, series, value):
        """Keeps a value, and lets go of the oldest of its series."""
        with self.lock, self.db:
            self.db.execute("insert into measurement (series, value) values (?, ?)", (series, value))
            self.db.execute(
                "delete from measurement where series = ? and id not in"
                " (select id from measurement where series = ? order by id desc limit ?)",
                (series, series, self.most),
            )

    def newest(self, series):
        """All values that are kept of a series, the newest first."""
        with self.lock:
            rows = self.db.execute("select value from measurement where series = ? order by id desc", (series,))
            return [value for (value,) in rows]

    def check(self):
        """Raises an error where the database does not answer."""
        with self.lock:
            self.db.execute("select count(*) from measurement").fetchone()
