/* memory.pml: may a server that forgot everything be counted again, and when?
 *
 * Clients claim, renew, extend and release one lock on three servers. A server may be wiped. From
 * then on it answers no claim (quorum_claim.lua: "unmarked") until it is admitted again
 * (src/core/muster.c): somebody asks the others; when a majority of all has told its longest lease
 * and its greatest number, and since the server was wiped that lease has passed and no claim of
 * then can still be under way, it gets that number as its floor. A holder that a majority confirmed
 * takes the lock again, in its next renewal, where it was found missing (src/core/driver.c); that
 * does not count as a confirmation.
 * Anybody may break the turn of a holder; a server remembers which it was told to break.
 *
 * Properties: nobody is granted the lock while another is valid; fences rise; who was broken by a
 * majority is not confirmed again by a renewal that it sent after that. (A break takes the lock
 * away from a holder that still believes in it: with BREAKS there is one turn only.)
 *
 * Time is counted in ticks, and only what is left of it is remembered. A lock lives for its lease
 * from when the server heard; a holder is valid for its lease from when it asked; both clocks tick
 * together (the margins for clocks of different speed are not modelled). A request is executed
 * within ASK ticks, or never ("stale"), and its answer heard then, or never. A claim proposes
 * one above the last fence, or that fence itself, which must not be granted again; the second phase
 * and what comes late are in fences.pml.
 *
 * The lock of a turn that is over is gone at once: if it is left behind and refuses others, that is
 * no more than if their requests got lost. So is what is executed, but not heard. */

#define NODES 3
#define MAJORITY 2
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef TURNS
#define TURNS 2 /* of all clients */
#endif
#ifndef RENEWALS
#define RENEWALS 2 /* of all clients */
#endif
#ifndef WIPES
#define WIPES 1
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef SHORT
#define SHORT 1 /* leases, in ticks */
#endif
#ifndef LONG
#define LONG 3
#endif
#ifndef ASK
#define ASK 1 /* so many ticks may pass until a request is executed */
#endif
#define AGE_MAX (LONG + ASK)

#define bit_of(mask, k) ((mask >> (k)) & 1)
#define max(a, b) (a > b -> a : b)

/* --- servers --- */

bit marked[NODES];   /* it has its node key: it counts */
byte age[NODES];     /* ticks since it was wiped */
byte counter[NODES]; /* the greatest number accepted, or the floor */
byte longest[NODES]; /* the longest lease granted */
byte owner[NODES];   /* 1 + the client that has the lock here, or 0 */
byte left[NODES];    /* ticks of its lease */
byte touched; /* servers are numbered in the order of their first request */
byte wipes;

/* --- clients --- */

mtype = { IDLE, CLAIMING, HOLDING, RENEWING };

typedef Turn {
    mtype state;
    byte lease;
    byte since;   /* ticks since the round was sent */
    byte valid;   /* ticks */
    byte fence;
    byte open;    /* servers that have not executed the request */
    byte yes;     /* how many confirmed */
    byte no;      /* ... denied */
    byte absent;  /* servers that have nothing of it */
    byte rejoins; /* servers that are asked to take it again, in this round */
    byte asks;    /* for this lease */
    bit confirmed; /* by a majority, in the round before */
    bit broken;   /* by a majority */
    bit doomed;   /* ... before this round was sent */
}
Turn turn[CLIENTS];

byte turns;    /* begun, of all clients */
byte renewals; /* begun, of all clients */
byte highest_fence;

/* --- breaking --- */

byte breaks;
byte breaking;         /* 1 + the client whose turn is broken */
byte broken_at;        /* servers that were told */
byte broken_to[NODES]; /* turns up to this number were broken here */

/* --- mustering --- */

byte doubted;  /* 1 + the server in doubt */
byte waited;   /* its age when the others were asked */
byte surveyed; /* servers that told */
byte floor;    /* the greatest number that they know */
byte lease;    /* ... and the longest lease */

/* --- a server --- */

inline clear_lock(k)
{
    owner[k] = 0;
    left[k] = 0
}

inline take(k, c)
{
    owner[k] = c + 1;
    left[k] = turn[c].asks;
    longest[k] = max(turn[c].asks, longest[k]);
    counter[k] = max(turn[c].fence, counter[k])
}

inline execute_claim(k, c)
{
    if
    :: marked[k] && (owner[k] == 0 || owner[k] == c + 1) && turn[c].fence > counter[k] ->
        take(k, c);
        turn[c].yes++
    :: else
    fi
}

inline execute_renewal(k, c)
{
    if
    :: owner[k] == c + 1 ->
        left[k] = max(turn[c].asks, left[k]);
#ifndef MUTANT_EXTENSION_UNNOTED
        longest[k] = max(turn[c].asks, longest[k]);
#endif
        turn[c].yes++
    :: else ->
        turn[c].no++;
        turn[c].absent = turn[c].absent | (1 << k)
    fi
}

#ifdef MUTANT_BREAK_FORGOTTEN /* a server that had nothing to break does not remember the break */
#define can_rejoin(k, c) (owner[k] == 0 || owner[k] == c + 1)
#else
#define can_rejoin(k, c)                                                                           \
    (owner[k] == c + 1 || (owner[k] == 0 && turn[c].fence > broken_to[k]))
#endif

/* A claim with the fence that it has: the server takes the lock if it is free. */
inline execute_rejoin(k, c)
{
    if
    :: marked[k] && can_rejoin(k, c) ->
        take(k, c);
#ifdef MUTANT_REJOIN_COUNTS
        turn[c].yes++;
#endif
        turn[c].absent = turn[c].absent & ~(1 << k)
    :: else
    fi
}

/* --- a client --- */

inline send(c)
{
    turn[c].since = 0;
    turn[c].open = (1 << NODES) - 1;
    turn[c].yes = 0;
    turn[c].no = 0
}

inline release(k, c)
{
    if
    :: owner[k] == c + 1 -> clear_lock(k)
    :: else
    fi
}

inline end_turn(c)
{
    turn[c].state = IDLE;
    turn[c].lease = 0;
    turn[c].since = 0;
    turn[c].valid = 0;
    turn[c].fence = 0;
    turn[c].open = 0;
    turn[c].yes = 0;
    turn[c].no = 0;
    turn[c].absent = 0;
    turn[c].rejoins = 0;
    turn[c].asks = 0;
    turn[c].confirmed = 0;
    turn[c].broken = 0;
    turn[c].doomed = 0;
    if
    :: breaking == c + 1 ->
        breaking = 0;
        broken_at = 0
    :: else
    fi;
    release(0, c);
    release(1, c);
    release(2, c)
}

inline settle(c)
{
    turn[c].state = HOLDING;
    turn[c].since = 0;
    turn[c].open = 0;
    turn[c].yes = 0;
    turn[c].no = 0;
    turn[c].asks = 0;
    turn[c].rejoins = 0;
    turn[c].doomed = 0
}

inline begin_claim(c)
{
    turns++;
    turn[c].state = CLAIMING;
    if
    :: turn[c].asks = SHORT
    :: turn[c].asks = LONG
    fi;
    turn[c].fence = highest_fence;
    if
    :: highest_fence > 0
    :: turn[c].fence = highest_fence + 1
    fi;
    send(c)
}

#define nobody_valid                                                                               \
    (turn[0].valid == 0 && turn[1].valid == 0 && turn[CLIENTS - 1].valid == 0)

/* A majority accepted; believed if anything is left of the lease. */
inline win(c)
{
    assert(nobody_valid);
    assert(turn[c].fence > highest_fence);
    highest_fence = turn[c].fence;
    turn[c].lease = turn[c].asks;
    turn[c].valid = turn[c].asks - turn[c].since;
    turn[c].confirmed = 1;
    settle(c)
}

inline begin_renewal(c)
{
    renewals++;
    turn[c].state = RENEWING;
    turn[c].doomed = turn[c].broken;
    turn[c].asks = turn[c].lease;
    if
    :: turn[c].asks = LONG /* it is extended */
    :: true
    fi;
#ifdef MUTANT_REJOIN_ALWAYS
    turn[c].rejoins = turn[c].absent;
#else
    turn[c].rejoins = (turn[c].confirmed -> turn[c].absent : 0);
#endif
    turn[c].absent = turn[c].rejoins;
    turn[c].confirmed = 0;
    send(c)
}

inline confirm(c)
{
    assert(!turn[c].doomed);
    turn[c].lease = turn[c].asks;
    turn[c].valid = max(turn[c].asks - turn[c].since, turn[c].valid);
    turn[c].confirmed = 1;
    settle(c)
}

inline execute(k, c)
{
    touched = max(k + 1, touched);
    turn[c].open = turn[c].open & ~(1 << k);
    if
    :: turn[c].state == CLAIMING -> execute_claim(k, c)
    :: turn[c].state == RENEWING && bit_of(turn[c].rejoins, k) -> execute_rejoin(k, c)
    :: else -> execute_renewal(k, c)
    fi
}

#define is_asking(c) (turn[c].state == CLAIMING || turn[c].state == RENEWING)

/* --- time --- */

inline tick_server(k)
{
    left[k] = (left[k] > 0 -> left[k] - 1 : 0);
    owner[k] = (left[k] > 0 -> owner[k] : 0);
    age[k] = (!marked[k] && age[k] < AGE_MAX -> age[k] + 1 : age[k])
}

inline tick_client(c)
{
    if
    :: is_asking(c) && turn[c].since < AGE_MAX -> turn[c].since++
    :: else
    fi;
    turn[c].valid = (turn[c].valid > 0 -> turn[c].valid - 1 : 0);
    if
    :: turn[c].valid == 0 && (turn[c].state == HOLDING || turn[c].state == RENEWING) -> end_turn(c)
    :: else
    fi
}

/* --- what may happen --- */

inline wipe(k)
{
    wipes++;
    touched = max(k + 1, touched);
#ifndef MUTANT_FORGETFUL_COUNTS
    marked[k] = 0;
#endif
    age[k] = 0;
    counter[k] = 0;
    longest[k] = 0;
    broken_to[k] = 0;
    clear_lock(k);
    if
    :: doubted == k + 1 -> end_muster()
    :: else
    fi
}

inline end_muster()
{
    doubted = 0;
    waited = 0;
    surveyed = 0;
    floor = 0;
    lease = 0
}

inline begin_muster(k)
{
    end_muster();
    doubted = k + 1;
    waited = age[k]
}

inline survey(k)
{
    surveyed = surveyed | (1 << k);
    floor = max(counter[k], floor);
    lease = max(longest[k], lease)
}

#ifdef MUTANT_SURVEY_OF_ONE
#define SURVEY_MAJORITY 1
#else
#define SURVEY_MAJORITY MAJORITY
#endif
#if defined(MUTANT_NO_WAIT)
#define has_waited true
#elif defined(MUTANT_ROUNDED_UP) /* it was wiped later than the server's age in whole ticks says */
#define has_waited (waited + 1 >= lease && waited + 1 > ASK)
#elif defined(MUTANT_UNSETTLED) /* claims under way when it was wiped may still succeed */
#define has_waited (waited >= lease)
#else
#define has_waited (waited >= lease && waited > ASK)
#endif
#define surveyed_count (bit_of(surveyed, 0) + bit_of(surveyed, 1) + bit_of(surveyed, 2))

inline admit()
{
    marked[doubted - 1] = 1;
    age[doubted - 1] = 0;
#ifndef MUTANT_NO_FLOOR
    counter[doubted - 1] = max(floor, counter[doubted - 1]);
#endif
    end_muster()
}

inline break_at(k)
{
    broken_at = broken_at | (1 << k);
    broken_to[k] = max(turn[breaking - 1].fence, broken_to[k]);
    if
    :: owner[k] == breaking -> clear_lock(k)
    :: else
    fi
}
#define broken_count (bit_of(broken_at, 0) + bit_of(broken_at, 1) + bit_of(broken_at, 2))

#define CLIENT_AT(c, k)                                                                            \
    :: atomic {                                                                                    \
        bit_of(turn[c].open, k) && turn[c].since <= ASK && k <= touched -> execute(k, c)           \
    }
#define CLIENT(c)                                                                                  \
    :: atomic { turn[c].state == IDLE && turns < TURNS && c <= turns -> begin_claim(c) }           \
    CLIENT_AT(c, 0)                                                                                \
    CLIENT_AT(c, 1)                                                                                \
    CLIENT_AT(c, 2)                                                                                \
    :: atomic {                                                                                    \
        turn[c].state == CLAIMING && turn[c].yes >= MAJORITY && turn[c].since < turn[c].asks ->    \
        win(c)                                                                                     \
    }                                                                                              \
    :: atomic { turn[c].state == HOLDING && renewals < RENEWALS -> begin_renewal(c) }              \
    :: atomic { turn[c].state == RENEWING && turn[c].yes >= MAJORITY -> confirm(c) }               \
    :: atomic { /* not confirmed: it tries again */                                                \
        turn[c].state == RENEWING && turn[c].yes < MAJORITY && turn[c].no < MAJORITY -> settle(c)  \
    }                                                                                              \
    :: atomic { turn[c].state != IDLE -> end_turn(c) } /* released, lost, or given up */

/* Nobody has a turn, and nobody will: nothing can be violated any more. */
#define is_over                                                                                    \
    (turns == TURNS && turn[0].state == IDLE && turn[1].state == IDLE &&                           \
     turn[CLIENTS - 1].state == IDLE)

#define SERVER(k)                                                                                  \
    :: atomic { wipes < WIPES && k <= touched && !is_over -> wipe(k) }                             \
    :: atomic { !marked[k] && !is_over -> begin_muster(k) }                                        \
    :: atomic { doubted != 0 && marked[k] && !bit_of(surveyed, k) -> survey(k) }                   \
    :: atomic { breaking != 0 && !bit_of(broken_at, k) -> break_at(k) }

#define BREAK(c)                                                                                   \
    :: atomic {                                                                                    \
        breaking == 0 && breaks < BREAKS && turn[c].valid > 0 ->                                   \
        breaks++;                                                                                  \
        breaking = c + 1                                                                           \
    }

init
{
    marked[0] = 1;
    marked[1] = 1;
    marked[2] = 1;
    turn[0].state = IDLE;
    turn[1].state = IDLE;
    turn[CLIENTS - 1].state = IDLE;
end:
    do
    CLIENT(0)
    CLIENT(1)
#if CLIENTS > 2
    CLIENT(2)
#endif
    SERVER(0)
    SERVER(1)
    SERVER(2)
    BREAK(0)
    BREAK(1)
    :: atomic { surveyed_count >= SURVEY_MAJORITY && has_waited && doubted != 0 -> admit() }
    :: atomic {
        broken_count >= MAJORITY ->
        turn[breaking - 1].broken = 1;
        breaking = 0;
        broken_at = 0
    }
    :: d_step {
        !is_over ->
        tick_server(0);
        tick_server(1);
        tick_server(2);
        tick_client(0);
        tick_client(1);
#if CLIENTS > 2
        tick_client(2)
#endif
    }
    od
}
