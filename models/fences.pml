/* fences.pml: do the fences that redlock agrees on rise, and is there one holder at a time?
 *
 * Clients claim one lock on NODES servers, turn after turn. A turn proposes a number. Each server
 * takes the lock for it if it is free or its own already, and accepts the number if it is greater
 * than all before (src/engine/redis/lua/quorum_claim.lua). A majority that accepted: the number is
 * the fence. A majority that locked, of which too few accepted: another round, with one above the
 * greatest counter told (src/pattern/quorum.c, src/core/driver.c, src/core/hear.c).
 *
 * What can go wrong, at any moment: a request is lost; its reply is lost; it is executed after its
 * sender went on to another round, gave up, released, or began another turn; the lease of a lock
 * ends; the validity of a holder ends. A server that restarts and keeps all that it knew
 * (appendfsync always) loses requests and replies: nothing more is needed for it.
 *
 * Property, at each grant: its fence is above every fence granted so far (so they are unique, and
 * rise in the order of the grants, which is more than is promised), and nobody else holds.
 *
 * Left out, and why nothing is lost:
 * - Clocks. `recent` says that less than a lease has passed since the round was sent, by the
 *   client's own clock; it may end at any time. What was locked in a round that is recent is kept.
 *   Any other lock may have expired, been undone or released, and is as good as none: if it is
 *   there and refuses others, that is no more than if their requests got lost.
 * - Whoever decides later hears the same: so a reply is heard when its request is executed, or not
 *   at all. What is executed unheard, in time or however late, locks nothing that anybody relies
 *   on; it may raise the counter. So may, before anything else is executed, every number that was
 *   ever proposed (`proposed`).
 * - First proposals are small numbers, not the time: a client may even propose less than it did.
 * - Servers are numbered in the order of their first request, clients in that of their first turn:
 *   any other order is the same story with other names. */

#ifndef NODES
#define NODES 3
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef TURNS
#define TURNS 3 /* of all clients */
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* of each turn: the first proposal, and those above what was told */
#endif
#ifndef PROPOSALS
#define PROPOSALS 2 /* a first proposal is one of 1..PROPOSALS */
#endif
#ifdef MUTANT_MAJORITY
#define MAJORITY (NODES / 2)
#else
#define MAJORITY (NODES / 2 + 1)
#endif

/* --- servers --- */

byte owner[NODES];   /* 1 + the client that relies on having the lock here, or 0 */
byte counter[NODES]; /* the greatest number accepted */

/* --- clients --- */

bit began[CLIENTS];  /* had a turn */
bit recent[CLIENTS]; /* less than a lease since it sent the present round */
byte turns;          /* so many have begun */
byte holders;        /* who believe to hold the lock */
byte highest_fence;  /* of all grants */
int proposed;        /* bit k: k was proposed */

#define bit_of(mask, k) ((mask >> (k)) & 1)

/* --- a server --- */

#if defined(MUTANT_UNGUARDED)
#define IS_ACCEPTED(n) true
#define RAISED(n) proposal
#elif defined(MUTANT_NAIVE) /* every server counts by itself, and the greatest count is the fence */
#define IS_ACCEPTED(n) true
#define RAISED(n) (counter[n] + 1)
#elif defined(MUTANT_EQUAL)
#define IS_ACCEPTED(n) (proposal >= counter[n])
#define RAISED(n) proposal
#else
#define IS_ACCEPTED(n) (proposal > counter[n])
#define RAISED(n) proposal
#endif

#ifdef MUTANT_OWNERLESS /* the second phase looks only at the counter */
#define is_taken(n) (owner[n] != 0 && owner[n] != me + 1 && (round == 1 || proposal <= counter[n]))
#else
#define is_taken(n) (owner[n] != 0 && owner[n] != me + 1)
#endif

mtype = { ACCEPTED, LOW, REFUSED };

/* Requests come that nobody waits for any more. */
inline hear_letters(n)
{
    if
    :: owner[n] == 0 || owner[n] == me + 1 ->
        told = counter[n];
        do
        :: (proposed >> told) > 1 ->
            told++;
            if
            :: bit_of(proposed, told) -> counter[n] = told
            :: true
            fi
        :: else -> break
        od
    :: else
    fi
}

/* The claim script. */
inline execute(n)
{
    hear_letters(n);
    told = counter[n];
    if
    :: is_taken(n) -> answer = REFUSED
    :: else ->
        owner[n] = (recent[me] -> me + 1 : owner[n]);
        if
        :: IS_ACCEPTED(n) ->
            counter[n] = RAISED(n);
            answer = ACCEPTED
        :: else -> answer = LOW
        fi
    fi
#ifdef MUTANT_NAIVE
    ; told = counter[n]
#endif
}

/* --- a client --- */

inline rely_on_none()
{
    n = 0;
    do
    :: n < NODES ->
        if
        :: owner[n] == me + 1 ->
            owner[n] = 0
#ifdef MUTANT_COUNTER_EXPIRES
            ; counter[n] = 0
#endif
        :: else
        fi;
        n++
    :: else -> break
    od;
    n = 0
}

inline begin_round()
{
    round++;
    open = (1 << NODES) - 1;
#ifndef MUTANT_STALE_VOTE /* answers to the round before count in this one */
    accepts = 0;
#endif
    locks = 0;
    highest = 0;
    recent[me] = 1;
    proposed = proposed | (1 << proposal);
    rely_on_none()
}

#ifdef MUTANT_NAIVE
#define FENCE highest
#define USELESS highest
#else
#define FENCE proposal
#define USELESS 0
#endif

inline hear()
{
    highest = (told > highest -> told : highest);
    if
    :: answer == ACCEPTED ->
        accepts++;
        locks++
    :: answer == LOW ->
#ifdef MUTANT_LOW_COUNTS
        accepts++;
#endif
        locks++
    :: else
    fi;
    if
    :: round == ROUNDS -> /* there is no round after this one to need them */
        locks = 0;
        highest = USELESS
    :: else
    fi;
    answer = 0;
    told = 0
}

inline win(fence)
{
    assert(fence > highest_fence); /* unique and rising */
    assert(holders == 0);          /* alone */
    highest_fence = fence;
    holders++;
    holding = 1
}

/* Released, lost or never had. */
inline end_turn()
{
    holders = holders - holding;
    holding = 0;
    recent[me] = 0;
    rely_on_none();
    open = 0;
    accepts = 0;
    locks = 0;
    highest = 0;
    proposal = 0;
    round = 0
}

inline propose()
{
    proposal = 1;
    do
    :: proposal < PROPOSALS -> proposal++
    :: break
    od
}

#ifdef MUTANT_LATE_BELIEVED /* validity is counted from when the answer came */
#define is_believed true
#else
#define is_believed recent[me]
#endif

#define SERVER(k, is_next)                                                                         \
    :: atomic {                                                                                    \
        bit_of(open, k) && accepts < MAJORITY && (is_next) ->                                      \
        open = open & ~(1 << k);                                                                   \
        execute(k);                                                                                \
        hear()                                                                                     \
    }

proctype Client(byte me)
{
    byte n, open, accepts, locks, highest, proposal, told, round;
    bit holding;
    mtype answer;

    do
    :: turns == TURNS -> break
    :: atomic {
        turns < TURNS && (me == 0 || began[me - 1]) ->
        turns++;
        began[me] = 1;
        propose();
        begin_round()
    }
        do
        SERVER(0, true)
        SERVER(1, counter[0] > 0)
        SERVER(2, counter[1] > 0)
#if NODES > 3
        SERVER(3, counter[2] > 0)
        SERVER(4, counter[3] > 0)
#endif
        :: atomic { /* a majority of locks, but the number was too low; the others time out */
            accepts < MAJORITY && locks >= MAJORITY && round < ROUNDS ->
            proposal = highest + 1;
            begin_round()
        }
        :: atomic { accepts >= MAJORITY && is_believed -> win(FENCE) }
            atomic { end_turn() } break
        :: atomic { recent[me] -> recent[me] = 0; rely_on_none() } /* time passes */
        :: atomic { true -> end_turn() } break                     /* it gives up */
        od
    od
}

init
{
    byte c;

    atomic {
        do
        :: c < CLIENTS ->
            run Client(c);
            c++
        :: else -> break
        od
    }
}
