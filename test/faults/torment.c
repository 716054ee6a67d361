/* torment.c: what happens to five servers, the network before them and their clients.
 *
 * The first part waits for what must come, never for a time: each lock is asked for in vain while
 * three servers are dead (two of them hear it), is granted when all are back, and is granted when
 * those two are dead. Counters that each server keeps for itself do not survive that.
 *
 * The second part is the dice: every server has at most one trouble at a time, which ends by
 * itself. A restarted server has all that it was told (AOF always).
 *
 * What can go wrong: the machine is slow, or the dice fall so, that a trouble does not occur or
 * hardly anything is granted: the first troubles therefore go through the list, and it is not over
 * before there was enough of everything. */

#include "torment.h"

#include <stdio.h>
#include <stdlib.h>

#define WELL         (-1)
#define GRANTS_MORE  5   /* of every lock, in every step of the first part */
#define REST_MS      200 /* between two troubles, at most */
#define STOP_MS      4000
#define CLIENTS_RISK 8 /* so often (1 in ...) a client is the victim */

/* With so many servers in trouble, one more is taken once in ... times. */
static const uint64_t risks[QUORUM_SERVERS] = { 1, 2, 6, 6, 6 };

/* clang-format off */
static const struct {
    const char *name;
    const char *whom;
    const char *begin;
    const char *end;
    uint64_t span_ms;
} troubles[TORMENT_TROUBLES] = {
    { "killed",     "server", "kill",            "start", 1500 },
    { "stopped",    "server", "freeze",          "thaw",  3000 },
    { "not heard",  "proxy",  "lose",            "pass",  1000 },
    { "kept back",  "proxy",  "hold",            "pass",  2500 },
    { "delayed",    "proxy",  "delay 10 200",    "pass",  2000 },
    { "cut",        "proxy",  "cut random 3000", "pass",  1500 },
};
/* clang-format on */

void torment_draw(struct dice *dice, int count, int out_servers[])
{
    int all[QUORUM_SERVERS];

    CHECK(count <= QUORUM_SERVERS);
    for (int i = 0; i < QUORUM_SERVERS; i++)
        all[i] = i;
    for (int i = 0; i < count; i++) {
        int other = i + (int)dice_below(dice, (uint64_t)(QUORUM_SERVERS - i));

        out_servers[i] = all[other];
        all[other] = all[i];
    }
}

struct dice torment_dice(void)
{
    const char *seed = getenv("HOLDFAST_SEED");
    struct dice dice = { .state = seed ? strtoull(seed, NULL, 10) : world_now_ns() };

    printf("    seed %llu\n", (unsigned long long)dice.state);
    return dice;
}

static void order(struct torment *torment, const char *whom, int server, const char *what)
{
    char text[64];

    snprintf(text, sizeof text, "%s %d %s", whom, server, what);
    scene_order(torment->scene, text);
}

static _Atomic uint64_t *number(struct torment *torment, int which)
{
    return &torment->scene->stage->numbers[which];
}

/* --- the first part --- */

static void wait_for_more(struct torment *torment, int which, uint64_t more)
{
    uint64_t before[TORMENT_LOCKS + 1];

    for (int lock = 1; lock <= TORMENT_LOCKS; lock++)
        before[lock] = atomic_load(number(torment, which + lock));
    for (int lock = 1; lock <= TORMENT_LOCKS; lock++)
        WAIT_UNTIL(atomic_load(number(torment, which + lock)) >= before[lock] + more);
}

static void for_servers(struct torment *torment, int first, int last, const char *what)
{
    for (int server = first; server <= last; server++)
        order(torment, "server", server, what);
}

static void begin(struct torment *torment)
{
    wait_for_more(torment, TORMENT_GRANTS, 1);
    atomic_store(number(torment, TORMENT_UNWELL), 3);
    for_servers(torment, 2, 4, "kill");
    wait_for_more(torment, TORMENT_FAILURES, torment->failures);
    for_servers(torment, 2, 4, "start");
    atomic_store(number(torment, TORMENT_UNWELL), 0);
    wait_for_more(torment, TORMENT_GRANTS, GRANTS_MORE);
    atomic_store(number(torment, TORMENT_UNWELL), 2);
    for_servers(torment, 0, 1, "kill");
    wait_for_more(torment, TORMENT_GRANTS, GRANTS_MORE);
    for_servers(torment, 0, 1, "start");
    atomic_store(number(torment, TORMENT_UNWELL), 0);
}

/* --- the second part --- */

static int count_unwell(const struct torment *torment)
{
    int count = 0;

    for (int i = 0; i < QUORUM_SERVERS; i++)
        count += torment->nodes[i].trouble != WELL;
    return count;
}

static void heal(struct torment *torment, uint64_t now_ns)
{
    for (int i = 0; i < QUORUM_SERVERS; i++) {
        struct node *node = &torment->nodes[i];

        if (node->trouble == WELL || now_ns < node->until_ns)
            continue;
        order(torment, troubles[node->trouble].whom, i, troubles[node->trouble].end);
        node->trouble = WELL;
    }
    for (int part = 0; part < TORMENT_PARTS; part++) {
        if (torment->stopped_until_ns[part] == 0 || now_ns < torment->stopped_until_ns[part])
            continue;
        scene_continue(torment->scene, part);
        torment->stopped_until_ns[part] = 0;
    }
    atomic_store(number(torment, TORMENT_UNWELL), (uint64_t)count_unwell(torment));
}

static void trouble_server(struct torment *torment, uint64_t now_ns)
{
    uint64_t before = 0;
    int server;
    int trouble;

    torment_draw(&torment->dice, 1, &server);
    if (torment->nodes[server].trouble != WELL)
        return;
    if (dice_below(&torment->dice, risks[count_unwell(torment)]) != 0)
        return;
    for (int i = 0; i < TORMENT_TROUBLES; i++)
        before += torment->counts[i];
    trouble =
        before < TORMENT_TROUBLES ? (int)before : (int)dice_below(&torment->dice, TORMENT_TROUBLES);
    order(torment, troubles[trouble].whom, server, troubles[trouble].begin);
    torment->counts[trouble]++;
    torment->nodes[server].trouble = trouble;
    torment->nodes[server].until_ns =
        now_ns + (1 + dice_below(&torment->dice, troubles[trouble].span_ms)) * NS_PER_MS;
    atomic_store(number(torment, TORMENT_UNWELL), (uint64_t)count_unwell(torment));
}

static void trouble_client(struct torment *torment, uint64_t now_ns)
{
    int part = (int)dice_below(&torment->dice, TORMENT_PARTS);

    if (torment->stopped_until_ns[part] != 0)
        return;
    if ((torment->stops + torment->kills) % 2) {
        scene_kill(torment->scene, part);
        scene_enter(torment->scene, part, torment->role);
        torment->kills++;
        return;
    }
    scene_stop(torment->scene, part);
    torment->stopped_until_ns[part] =
        now_ns + (1 + dice_below(&torment->dice, STOP_MS)) * NS_PER_MS;
    torment->stops++;
}

static bool enough(struct torment *torment)
{
    for (int i = 0; i < TORMENT_TROUBLES; i++) {
        if (torment->counts[i] == 0)
            return false;
    }
    if (atomic_load(number(torment, TORMENT_THROUGH)) < torment->through_least)
        return false;
    return torment->spares_clients || (torment->stops > 0 && torment->kills > 0);
}

static void tell(const struct torment *torment)
{
    printf("    servers:");
    for (int i = 0; i < TORMENT_TROUBLES; i++)
        printf(" %s %llu,", troubles[i].name, (unsigned long long)torment->counts[i]);
    printf(" clients: stopped %llu, killed %llu\n", (unsigned long long)torment->stops,
           (unsigned long long)torment->kills);
}

void torment_run(struct torment *torment)
{
    struct stage *stage = torment->scene->stage;
    uint64_t end_ns;

    for (int i = 0; i < QUORUM_SERVERS; i++)
        torment->nodes[i].trouble = WELL;
    for (int part = 0; part < TORMENT_PARTS; part++)
        scene_enter(torment->scene, part, torment->role);
    begin(torment);
    end_ns = world_now_ns() + torment->span_ms * NS_PER_MS;
    while (world_now_ns() < end_ns || !enough(torment)) {
        uint64_t now_ns = world_now_ns();

        heal(torment, now_ns);
        if (!torment->spares_clients && dice_below(&torment->dice, CLIENTS_RISK) == 0)
            trouble_client(torment, now_ns);
        else
            trouble_server(torment, now_ns);
        world_sleep_ms(1 + (int64_t)dice_below(&torment->dice, REST_MS));
    }
    heal(torment, UINT64_MAX);
    for (int part = 0; part < TORMENT_PARTS; part++) {
        uint64_t before = atomic_load(&stage->acts[part]);

        WAIT_UNTIL(atomic_load(&stage->acts[part]) > before);
    }
    atomic_store(&stage->over, true);
    for (int part = 0; part < TORMENT_PARTS; part++)
        scene_leave(torment->scene, part);
    tell(torment);
}
