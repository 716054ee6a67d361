"""Were the turns that players wrote down possible, and in order?

A line is "enter|leave w|r FENCE WHO", written while the lock is held; so of two turns that exclude
each other one has left before the other enters. Fences are the order in which the claims were made.
"""

import collections

Turn = collections.namedtuple("Turn", "what mode fence who")
MEETINGS_MIN = 5  # so often ours must follow theirs, and theirs ours, to have shown anything


def read(path):
    with open(path, encoding="ascii") as file:
        found = [line.split() for line in file]
    return [Turn(what, mode, int(fence), who) for what, mode, fence, who in found]


def exclusion(turns):
    """Who was inside together and must not? Who came before somebody that was there earlier?"""
    inside = {}
    latest = {"w": 0, "r": 0}
    for number, (what, mode, fence, who) in enumerate(turns, 1):
        where = f"line {number}, {who}"
        if what == "leave":
            if inside.pop(fence, None) != (mode, who):
                return f"{where}: leaves what it had not entered\n"
            continue
        others = [other for other in inside.values() if "w" in (mode, other[0])]
        if others:
            return f"{where}: enters as {mode} beside {others}\n"
        passed = latest["w"] if mode == "r" else max(latest.values())
        if fence <= passed:
            return f"{where}: enters as {mode} with {fence}, after {passed}: out of order\n"
        inside[fence] = (mode, who)
        latest[mode] = max(latest[mode], fence)
    return f"still inside at the end: {inside}\n" if inside else None


def side(who):
    return who.partition("-")[0]


def count_meetings(turns):
    """How often each side entered next after the other: {(before, after): times}"""
    entered = [side(turn.who) for turn in turns if turn.what == "enter"]
    return collections.Counter((before, after) for before, after in zip(entered, entered[1:])
                               if before != after)


def count_readers(turns):
    """The most that were in together."""
    now = most = 0
    for turn in turns:
        now += (turn.what == "enter") - (turn.what == "leave")
        most = max(most, now)
    return most


def summary(turns):
    entered = collections.Counter((side(turn.who), turn.mode) for turn in turns
                                  if turn.what == "enter")
    told = ", ".join(f"{who} {mode} {count}" for (who, mode), count in sorted(entered.items()))
    meetings = count_meetings(turns)
    return (f"{told}; ours after theirs {meetings['theirs', 'ours']} times, the other way round "
            f"{meetings['ours', 'theirs']}; at most {count_readers(turns)} in together")


def judge(turns, players):
    """What is wrong, or None."""
    wrong = exclusion(turns)
    if wrong:
        return wrong
    if len({turn.who for turn in turns}) < players:
        return "somebody never got in, so nothing was shown\n"
    meetings = count_meetings(turns)
    if min(meetings["ours", "theirs"], meetings["theirs", "ours"]) < MEETINGS_MIN:
        return "ours and theirs hardly met, so nothing was shown\n"
    if any(turn.mode == "r" for turn in turns) and count_readers(turns) < 2:
        return "no two readers were in together, so nothing was shown\n"
    return None


def story(text):
    """Turns from a short form: "w1+ w1- r2+ r3+ r2- r3-"."""
    return [Turn("enter" if word[-1] == "+" else "leave", word[0], int(word[1:-1]), "a-1")
            for word in text.split()]


GOOD = ("w1+ w1- w2+ w2-", "r2+ r1+ r1- r2- w3+ w3-", "w1+ w1- r3+ r2+ r3- r2- w4+ w4-")
BAD = ("w1+ w2+ w1- w2-",  # two writers
       "r1+ w2+ r1- w2-", "w1+ r2+ w1- r2-",  # a writer and a reader
       "w2+ w2- w1+ w1-", "w2+ w2- r1+ r1-", "r2+ r2- w1+ w1-",  # out of order
       "w1+ w1- w1+ w1-", "w1+", "w1-")


def proof():
    """What the judge does not see, or None."""
    blind = [text for text in BAD if not exclusion(story(text))]
    ghosts = [text for text in GOOD if exclusion(story(text))]
    alone = [Turn(what, "w", fence, "ours-1") for fence in range(1, 99)
             for what in ("enter", "leave")]
    if blind or ghosts or not judge(alone, 1) or not judge(alone, 2):
        return f"blind to {blind}, sees ghosts in {ghosts}, or is content with one side alone\n"
    return None
