"""Sequences of events with the model's responses, as JSON lines, to compare with a service that runs the same events.

    python3 side.py random SEED COUNT     random sequences
    python3 side.py attacks SEED COUNT    a year each of an attacker that wants cheap credits
    python3 side.py play                  the events of a sequence read from stdin: {"retries": [...], "events": [...]}
    python3 side.py scenario              the same, for a scenario of vectors.json, which can always be run

A line with `name` begins a sequence; each line after it is an event with the response (`answer`) and the state after it
(`expect`), as in vectors.json. The same seed generates the same lines.

Not every sequence of the model can be run on a service and a processor: `playable` says which cannot, and why.
"""
import copy
import json
import random
import sys

import explore
from explore import BEST, CATALOGUE, LONG_TRIES, T0, World, cost, hold, some_event, some_note, usable, view
from model import DAY

# While events are held back, a customer's other actions would make the service read the payments itself.
WHILE_DEAF = ("wait", "card", "refund", "keep", "note", "void_note", "dispute", "undo", "deliver")
CLOCK = (0, 1, 30, 3600)


def playable(event, w):
    """Whether a service and a processor can run this event now."""
    do = event["do"]
    if w.deaf and do not in WHILE_DEAF:
        return False
    if do == "hold_events":
        return bool(w.invoices)                                 # the processor knows the customer
    if do == "switch_slot":
        return event["source"] != event["target"]               # a wrong field for the service
    if do == "auto_topup":                                      # such a charge has no tax, and counts toward the daily cap
        today = [i for i in w.invoices if i["reason"] == "pack" and i["at"] // DAY == event["t"] // DAY]
        return w.card_ok and not w.tax and not today and any(i["charged"] for i in w.invoices)
    if do == "dispute":                                         # a charge can be disputed once
        return not any(k.startswith("d") and r["invoice"] == event["id"] for k, r in w.reversals.items())
    if do == "keep":
        return event["ref"] in w.reversals and not event["ref"].startswith("d")
    if do == "void_note":
        return event["ref"] in w.notes
    if do == "note":                                            # a pack has no invoice unless that is configured
        if not any(i["id"] == event["id"] and i["reason"] != "pack" for i in w.invoices) or not all(
                ref in w.reversals and w.reversals[ref]["stands"] for ref, _ in event.get("links", ())):
            return False
        after = copy.deepcopy(w)                                # less than the least charge cannot be collected alone
        after.do(event)
        return all(i["status"] != "open" or not 0 < i["charged"] < 50 for i in after.invoices)
    if do == "undo":
        return event["ref"] in w.reversals and w.reversals[event["ref"]]["stands"]
    if do == "pay_open":                                        # a new card pays all open invoices
        return sum(i["status"] == "open" for i in w.invoices) < 2 and any(i["id"] == event["id"] for i in w.invoices)
    if do == "refund":
        return any(i["id"] == event["id"] and i["charged"] for i in w.invoices)
    return True


def with_top_ups(r, event):
    """Turns automatic top-up on for some calls only: the service checks the balance more often than the model."""
    if event["do"] != "auto_topup":
        return [event]
    spends = [dict(t=event["t"] + n, do="spend", n=r.choice([1, 500, 5000, 12000])) for n in range(r.randrange(3))]
    return [event, *spends, dict(t=event["t"] + len(spends), do="topup_off")]


class Side(World):
    def topup_off(self):
        self.topup = None


class Sequence:
    """A sequence, built one event at a time."""
    def __init__(self, name, retries):
        self.world, self.known = Side({**CATALOGUE, "retries": tuple(retries)}), {}
        self.lines = [{"name": name, "retries": list(retries)}]

    def do(self, event):
        answer = self.world.do(event)
        hold(self.world)
        self.lines.append({**event, "answer": answer, "expect": view(self.world, self.known)})
        return answer

    def print(self):
        for line in self.lines:
            print(json.dumps(line, default=float))


def randomly(seed, number):
    r = random.Random(f"{seed} {number}")
    one, t = Sequence(f"random {seed} {number}", r.choice([CATALOGUE, LONG_TRIES])["retries"]), T0 + r.randrange(60 * DAY)
    for _ in range(r.randrange(4, 22)):
        t += r.choice([*CLOCK, r.randrange(DAY), r.randrange(10 * DAY), r.randrange(40 * DAY)])
        one.world.advance(max(t, one.world.now))                # so that the event fits the state at its time
        t = one.world.now
        event = some_event(r, one.world, t)
        unpaid = [i["id"] for i in one.world.invoices if i["status"] == "open"]
        if unpaid and r.random() < .2:
            one.do(dict(t=t, do="card", ok=r.random() < .8))
            event = dict(t=t, do="pay_open", id=unpaid[0])
        elif unpaid and r.random() < .5:                        # notes of open invoices, some of them voided again
            issued = [k for k, n in one.world.notes.items() if n["stands"] and n["invoice"] in unpaid]
            voids = issued and r.random() < .5
            event = dict(t=t, do="void_note", ref=issued[0]) if voids else some_note(r, one.world, t)
        if playable(event, one.world):
            for each in with_top_ups(r, event):
                one.do(each)
                t = each["t"]
    if one.world.deaf:
        one.do(dict(t=t, do="deliver"))
    one.do(dict(t=t + r.choice([0, 70 * DAY]), do="wait"))
    return one


# -- an attacker that wants cheap credits ------------------------------------------------------------------------------
HOLES = [World, explore.DowngradesAtOnce, explore.OwnPaymentOnly, explore.CreditsUnpaidTime, explore.MoneyReturnsTwice]


def gain(w):
    return float(usable(w) - BEST * cost(w))


def attack(seed, number):
    """A year of the events that would pay off most if a rule were missing. The number selects the rule."""
    r, hole = random.Random(f"{seed} {number}"), HOLES[number % len(HOLES)]
    retries = r.choice([CATALOGUE, LONG_TRIES])["retries"]
    bank, beam = number % 2 == 1, [(hole({**CATALOGUE, "retries": tuple(retries)}), ())]
    for step in range(12 * 3):
        month, part = divmod(step, 3)
        t, found = T0 + month * 30 * DAY + (0, 14 * DAY, 30 * DAY - 600)[part], []
        for w, path in beam:
            events = list(explore.choices(w, t, bank))
            for event in r.sample(events, min(5, len(events))):
                other = copy.deepcopy(w)
                if other.do(event) == "200":
                    found.append((other, path + (event,)))
        found.sort(key=lambda x: -gain(x[0]) - r.random() * 5000)
        beam = found[:4] or beam
    one = Sequence(f"attack {seed} {number} ({hole.__name__})", retries)
    for event in beam[0][1]:
        one.world.advance(event["t"])
        if playable(event, one.world) and known_here(event, one.world):
            one.do(event)
    one.do(dict(t=T0 + 366 * DAY, do="card", ok=True))
    one.do(dict(t=T0 + 432 * DAY, do="wait"))
    return one


def known_here(event, w):
    """Whether the event's invoice exists here: without a rule there may be other invoices."""
    return event.get("id") is None or any(
        i["id"] == event["id"] and i["status"] == "paid" and i["charged"] > i["reversed"] for i in w.invoices)


def play(given, is_known=False):
    one = Sequence(given.get("name", "replayed"), given["retries"])
    for event in given["events"]:
        one.world.advance(max(event["t"], one.world.now))
        if not is_known and not playable(event, one.world):
            sys.exit(f"cannot be played: {event}")
        one.do(event)
    return one


if __name__ == "__main__":
    if sys.argv[1] in ("play", "scenario"):
        play(json.load(sys.stdin), sys.argv[1] == "scenario").print()
    else:
        make = {"random": randomly, "attacks": attack}[sys.argv[1]]
        for number in range(int(sys.argv[3])):
            make(sys.argv[2], number).print()
