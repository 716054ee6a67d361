"""A database, and what its own lock takes for a hand-over, which is printed beside W5."""

import measure

CONNECTIONS_MAX = 3  # W6


class Database(measure.Field):
    """own_lock is measured by `holdfast bench`, in turns with ours."""

    own_lock = None

    def every_server(self):
        return [self.server]

    def url(self, recipe):
        return self.server.url(recipe=recipe)

    def find_peers(self, _directory):
        """There are none to be started."""

    def measure(self, recipe, placement):
        before = len(self.rows)
        super().measure(recipe, placement)
        for row in self.rows[before:]:
            if row.get("beside"):
                row["peers"][self.own_lock] = row["beside"]

    def judge(self, row):
        found = super().judge(row)
        if row["workload"] == "W6":
            count = row["ours"]["connections"]
            found.append((f"<= {CONNECTIONS_MAX} connections ({count:.0f})",
                          count <= CONNECTIONS_MAX))
        return found
