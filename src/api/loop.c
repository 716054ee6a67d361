/* loop.c: who waits for what, and who does the work meanwhile?
 *
 * A thread that needs an answer steps the core, and if the answer is not there it waits: as the
 * leader, which polls the connections for everybody, or as a follower, which sleeps on a word until
 * somebody rings it. The leader that has its answer promotes the oldest follower. Where the store
 * rings the word itself (keeper_listens), all callers are followers and the keeper does the
 * polling. Where its news come on the keeper's lane (kept_news), a leader that stands in line polls
 * that as well, and the keeper does not.
 *
 * The keeper is one thread per client: it polls its own lane, and that of the calls when nobody has
 * called for a while, does what is due, and raises events. It blocks all signals, holds the mutex
 * only for a step, and ends only in hf_close.
 *
 * What can go wrong: a wake-up that is lost: none is relied upon alone, because whoever sleeps
 * looked at the word before it looked for news. A keeper that sleeps too long: whoever makes
 * something due earlier kicks it. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "api/client.h"
#include "base/stream.h"

#define SPIN_PAUSES_MIN 32
#define SPIN_PAUSES_MAX 4096
#define SPIN_AHEAD_MAX  3 /* whoever is further back has time to sleep */
#define QUIET_NS        (50 * HF__NS_PER_MS)
#define CALLERS_NS      (1 * HF__NS_PER_S)
#define FAR_NS          (3 * HF__NS_PER_S)
#define LATE_NS         (20 * HF__NS_PER_MS)
#define LISTEN_NS       (50 * HF__NS_PER_MS) /* whoever reads wakes long before that */

/* When the mutex is free: it would only wake to wait for that. */
static void kick_keeper(struct hf_client *client)
{
    client->kicks_keeper = true;
}

static void drain(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof(count));

    (void)got;
}

static void raise_events(struct hf_client *client)
{
    bool pending = !hf__list_empty(&client->core.notes);

    if (pending == client->event_raised)
        return;
    client->event_raised = pending;
    if (pending)
        hf__entry_kick(client->event_fd);
    else
        drain(client->event_fd);
}

static void wake_leader(struct hf_client *client)
{
    client->leader_until_ns = 0;
    hf__entry_kick(client->leader_fd);
}

/* From now on the leader wakes by itself. */
static void watch_leader(struct hf_client *client)
{
    if (!client->led || client->leader_is_timed || client->leader_until_ns == 0 ||
        client->leader_until_ns > client->seen_ns + FAR_NS)
        return;
    wake_leader(client);
}

/* Makes sure that somebody wakes in time for what is due, and polls all that there is. */
static void alert(struct hf_client *client)
{
    uint64_t deadline_ns =
        hf__driver_take_more(&client->core.driver) ? 0 : hf__core_deadline(&client->core);

    if (client->has_keeper && deadline_ns < client->keeper_until_ns) {
        client->keeper_until_ns = deadline_ns;
        kick_keeper(client);
    }
    if (client->led &&
        (client->leader_answer->status != HF_PENDING || deadline_ns < client->leader_until_ns))
        wake_leader(client);
}

uint64_t hf__loop_now(struct hf_client *client)
{
    client->seen_ns = hf__clock_now_ns();
    return client->seen_ns;
}

uint64_t hf__loop_lately(struct hf_client *client)
{
    uint64_t tick = hf__clock_tick();

    if (tick == client->seen_tick)
        return client->seen_ns;
    client->seen_tick = tick;
    return hf__loop_now(client);
}

/* `pace`: of what nobody waits for, which goes by the keeper's lane, if it has one of its own. */
static void step(struct hf_client *client, enum hf__pace pace)
{
    struct hf__driver *driver = &client->core.driver;

    hf__driver_set_pace(driver, HF__LANE_CALL, driver->lanes == 1 ? pace : HF__PACE_AT_ONCE);
    hf__driver_set_pace(driver, HF__LANE_KEEP, pace);
    hf__core_step(&client->core, hf__loop_now(client));
    raise_events(client);
    alert(client);
}

void hf__loop_step(struct hf_client *client)
{
    step(client, HF__PACE_AT_ONCE);
}

/* Nobody waits for what was asked. Where there is one connection for all, the keeper must look
 * after it, though callers may have been there just now. */
static void leave_to_keeper(struct hf_client *client)
{
    if (!client->has_keeper || !client->core.recipe->in_session)
        return;
    client->tended_until_ns = client->seen_ns + QUIET_NS;
    if (!client->keeper_tends_calls)
        kick_keeper(client);
    client->keeper_tends_calls = true;
}

void hf__loop_step_soon(struct hf_client *client)
{
    step(client, client->has_keeper ? HF__PACE_WITH_ANSWERS : HF__PACE_AT_ONCE);
    leave_to_keeper(client);
}

static void sleep_on(struct hf__pollset *set)
{
    bool forever = set->deadline_ns == HF__NEVER;
    uint64_t now_ns = forever ? 0 : hf__clock_now_ns();
    uint64_t wait_ns = set->deadline_ns > now_ns ? set->deadline_ns - now_ns : 0;
    struct timespec wait = { .tv_sec = (time_t)(wait_ns / HF__NS_PER_S),
                             .tv_nsec = (long)(wait_ns % HF__NS_PER_S) };

    ppoll(set->fds, set->count, forever ? NULL : &wait, NULL);
}

void hf__loop_pollset(struct hf_client *client, struct hf__pollset *set)
{
    hf__pollset_init(set);
    hf__driver_pollset(&client->core.driver, HF__LANE_CALL, set);
    hf__driver_pollset(&client->core.driver, HF__LANE_KEEP, set);
    hf__pollset_until(set, hf__core_deadline(&client->core));
}

/* --- callers --- */

/* Engines read only what somebody has polled since they last did. Whoever does not wait does not
 * poll, but wants to know what has come. */
static void look(struct hf_client *client)
{
    struct hf__pollset set;

    if (!client->core.recipe->keeper_listens)
        hf__loop_pollset(client, &set);
}

void hf__loop_step_polled(struct hf_client *client)
{
    look(client);
    hf__loop_step(client);
}

/* A timer costs as much as a tenth of an answer. The keeper looks every CALLERS_NS while anybody
 * waits; whoever need not wake for much longer can leave that to it. */
static bool keeper_watches(const struct hf_client *client)
{
    return client->has_keeper && client->leader_until_ns > client->seen_ns + FAR_NS &&
           client->keeper_until_ns <= client->seen_ns + CALLERS_NS;
}

/* Where several stores have our CPU, each of them would wake us with its answer before the next one
 * gets to work. */
static void poll_for_all(struct hf_client *client, struct hf__pollset *set)
{
    bool yields = hf__driver_shares_cpu(&client->core.driver, HF__LANE_CALL);

    hf__entry_unlock(client);
    if (yields)
        sched_yield();
    sleep_on(set);
    pthread_mutex_lock(&client->mutex);
    if (set->fds[set->count - 1].revents)
        drain(client->leader_fd);
}

/* The first answer is near: it is waited for by reading, which spares a system call. Nobody can
 * wake us meanwhile, but it lasts a few ms at the most. */
static void listen_for_all(struct hf_client *client, int fd)
{
    char bytes[HF__LISTEN_BYTES];
    size_t count;

    hf__entry_unlock(client);
    count = hf__stream_listen(fd, bytes);
    pthread_mutex_lock(&client->mutex);
    hf__driver_heard(&client->core.driver, bytes, count);
}

/* If the keeper heard first what wakes the leader, that would be one thread more on the way. It is
 * told when it need not hear, and when it must again. */
static void hear_news(struct hf_client *client, bool hears)
{
    if (client->leader_hears == hears)
        return;
    client->leader_hears = hears;
    kick_keeper(client);
}

static void lead(struct hf_client *client, const struct hf__awaited *awaited, uint64_t deadline_ns,
                 bool is_first)
{
    bool in_line = awaited->ahead && *awaited->ahead > 0 && *awaited->ahead < HF__AHEAD_UNKNOWN;
    bool hears = in_line && client->has_keeper && client->core.recipe->kept_news;
    struct hf__pollset set;
    bool has_time;
    int fd = -1;

    hf__pollset_init(&set);
    hf__driver_pollset(&client->core.driver, HF__LANE_CALL, &set);
    hear_news(client, hears);
    if (hears)
        hf__driver_pollset(&client->core.driver, HF__LANE_KEEP, &set);
    hf__pollset_until(&set, hf__core_deadline(&client->core));
    hf__pollset_until(&set, deadline_ns);
    hf__pollset_add(&set, client->leader_fd, POLLIN);
    has_time = client->callers == 1 && set.deadline_ns > client->seen_ns + LISTEN_NS;
    client->led = true;
    client->leader_answer = awaited->answer;
    client->leader_until_ns = set.deadline_ns;
    client->leader_is_timed = !keeper_watches(client);
    if (!client->leader_is_timed)
        set.deadline_ns = HF__NEVER;
    if (is_first && !hears && (has_time || !client->leader_is_timed))
        fd = hf__driver_listen(&client->core.driver);
    if (fd >= 0)
        listen_for_all(client, fd);
    else
        poll_for_all(client, &set);
    client->led = false;
    client->leader_answer = NULL;
}

static void follow(struct hf_client *client, const struct hf__awaited *awaited, uint32_t seen,
                   uint64_t deadline_ns)
{
    struct hf__wake *bell = *awaited->bell;
    struct hf__follower me = { .bell = bell };
    /* Where the answer comes from another machine, it is never worth to spin for it. */
    bool near = client->core.recipe->keeper_listens &&
                (!awaited->ahead || *awaited->ahead <= SPIN_AHEAD_MAX);
    uint32_t pauses = near ? client->spin_pauses : 0;
    bool spun = false;
    uint64_t until_ns = hf__core_deadline(&client->core);

    if (deadline_ns < until_ns)
        until_ns = deadline_ns;
    hf__list_init(&me.place);
    hf__list_append(&client->followers, &me.place);
    hf__entry_unlock(client);
    hf__wake_wait(bell, seen, until_ns, pauses, &spun);
    pthread_mutex_lock(&client->mutex);
    hf__list_remove(&me.place);

    /* Spin longer while it helps, hardly at all while it does not. */
    if (near && spun && client->spin_pauses < SPIN_PAUSES_MAX)
        client->spin_pauses *= 2;
    if (near && !spun && client->spin_pauses > SPIN_PAUSES_MIN)
        client->spin_pauses /= 2;
}

/* Lets the others of this CPU write down what they want, so that it travels together. */
static void gather(struct hf_client *client)
{
    client->gathering = true;
    hf__entry_unlock(client);
    sched_yield();
    pthread_mutex_lock(&client->mutex);
    client->gathering = false;
}

static bool keeper_leads(const struct hf_client *client)
{
    return client->has_keeper && client->core.recipe->keeper_listens;
}

static enum hf__pace pace_of(const struct hf_client *client, bool gathered)
{
    if (client->gathering)
        return HF__PACE_LATER;
    if (client->led)
        return HF__PACE_WITH_ANSWERS;
    return client->callers > 1 && !gathered ? HF__PACE_LATER : HF__PACE_AT_ONCE;
}

/* What was held back for others who have left meanwhile. */
static void send_the_rest(struct hf_client *client, uint64_t now_ns)
{
    if (client->led || client->gathering || !hf__list_empty(&client->followers) ||
        !hf__driver_holds_back(&client->core.driver, HF__LANE_CALL))
        return;
    hf__driver_set_pace(&client->core.driver, HF__LANE_CALL, HF__PACE_AT_ONCE);
    hf__core_step(&client->core, now_ns);
}

static void promote(struct hf_client *client)
{
    if (client->led || hf__list_empty(&client->followers))
        return;
    hf__events_ring(&client->core,
                    HF__LIST_ENTRY(client->followers.next, struct hf__follower, place)->bell);
}

/* What an answer may have left to do besides: events to raise, timers to watch. */
static bool has_more(const struct hf_client *client)
{
    bool pending = !hf__list_empty(&client->core.notes);

    return pending != client->event_raised || client->core.turn_timers.count > 0 ||
           client->core.claim_timers.count > 0 || client->core.closing ||
           (client->led && client->leader_answer->status != HF_PENDING);
}

/* Whoever hears news that it waited for leaves what is to be said about them to the keeper. */
static void step_for(struct hf_client *client, const struct hf__answer *answer, uint64_t now_ns)
{
    if (client->leader_hears) {
        hf__driver_set_pace(&client->core.driver, HF__LANE_KEEP, HF__PACE_LATER);
        hf__core_step(&client->core, now_ns);
        hf__driver_set_pace(&client->core.driver, HF__LANE_KEEP, HF__PACE_AT_ONCE);
        if (answer->status != HF_PENDING)
            return;
    }
    hf__core_step(&client->core, now_ns);
}

/* How a thread has waited so far. */
struct manner {
    bool gathered; /* just now */
    bool led;
};

/* One turn of waiting, in the way that suits the moment. */
static void wait_once(struct hf_client *client, const struct hf__awaited *awaited, uint32_t seen,
                      uint64_t deadline_ns, struct manner *manner)
{
    if (client->led)
        alert(client); /* what we read may have been the leader's: its poll will not see it */
    if (client->led || client->gathering || keeper_leads(client)) {
        follow(client, awaited, seen, deadline_ns);
        manner->gathered = false;
    } else if (!manner->gathered && hf__driver_holds_back(&client->core.driver, HF__LANE_CALL)) {
        gather(client);
        manner->gathered = true;
    } else {
        lead(client, awaited, deadline_ns, !manner->led);
        manner->gathered = false;
        manner->led = true;
    }
}

bool hf__loop_wait_until(struct hf_client *client, const struct hf__awaited *awaited,
                         uint64_t deadline_ns)
{
    struct hf__driver *driver = &client->core.driver;
    struct hf__answer *answer = awaited->answer;
    uint64_t now_ns = client->seen_ns; /* the request was made just now */
    struct manner manner = { 0 };

    client->callers++;
    hf__driver_set_pace(driver, HF__LANE_CALL, pace_of(client, false));
    if (now_ns >= deadline_ns)
        look(client);
    if (hf__core_fetch(&client->core, answer, now_ns) && !has_more(client)) {
        client->callers--;
        return true;
    }
    for (;; now_ns = hf__loop_now(client)) {
        struct hf__wake *word = *awaited->bell;
        uint32_t seen = hf__wake_look(word);

        hf__driver_set_pace(driver, HF__LANE_CALL, pace_of(client, manner.gathered));
        step_for(client, answer, now_ns);
        raise_events(client);
        if (answer->status != HF_PENDING || now_ns >= deadline_ns)
            break;
        if (word == *awaited->bell)
            wait_once(client, awaited, seen, deadline_ns, &manner);
    }
    client->callers--;
    if (manner.led) /* who asks and does not wait, again and again, polls nothing for anybody */
        client->called_ns = now_ns;
    send_the_rest(client, now_ns);
    alert(client);
    if (!keeper_leads(client))
        promote(client);
    if (!client->led && hf__list_empty(&client->followers))
        hear_news(client, false);
    if (client->core.closing)
        kick_keeper(client); /* hf_close waits for us */
    return answer->status != HF_PENDING;
}

void hf__loop_wait(struct hf_client *client, const struct hf__awaited *awaited)
{
    bool answered = hf__loop_wait_until(client, awaited, HF__NEVER);

    assert(answered);
    (void)answered;
}

/* --- the keeper --- */

/* Where all of a client lives in one session, a caller that is starved must not let it die. */
static void watch_session(struct hf_client *client, struct hf__pollset *set)
{
    struct hf__pollset calls;

    if (!client->core.recipe->in_session)
        return;
    hf__pollset_init(&calls);
    hf__driver_pollset(&client->core.driver, HF__LANE_CALL, &calls);
    if (calls.deadline_ns < HF__NEVER - LATE_NS)
        hf__pollset_until(set, calls.deadline_ns + LATE_NS);
}

/* Callers poll their connection themselves. If the keeper did so too, each answer would wake two
 * threads; so it leaves the calls alone while there are any, and looks now and then whether that is
 * still so: what is left over then is only the undoing of what nobody waits for. */
static bool tends_calls(struct hf_client *client, struct hf__pollset *set)
{
    if (client->core.recipe->keeper_listens)
        return true;
    if (client->seen_ns < client->tended_until_ns) {
        hf__pollset_until(set, client->tended_until_ns);
        return true;
    }
    if (client->callers > 0) {
        hf__pollset_until(set, client->seen_ns + CALLERS_NS);
        watch_session(client, set);
        return false;
    }
    hf__pollset_until(set, client->seen_ns < client->called_ns + QUIET_NS
                               ? client->called_ns + QUIET_NS
                               : HF__NEVER);
    return client->seen_ns >= client->called_ns + QUIET_NS;
}

/* Its own lane, unless a leader hears that. While it is being connected its descriptors change, and
 * a leader that sleeps knows only those that there were: so the keeper hears it too, and when that
 * is over tells the leader to look again. */
static void poll_own_lane(struct hf_client *client, struct hf__pollset *set)
{
    bool helps = client->leader_hears && hf__driver_state(&client->core.driver) != HF__CONN_UP;

    if (helps || !client->leader_hears)
        hf__driver_pollset(&client->core.driver, HF__LANE_KEEP, set);
    if (client->keeper_helps && !helps && client->led)
        wake_leader(client);
    client->keeper_helps = helps;
}

static void keep(struct hf_client *client)
{
    struct hf__pollset set;

    /* Whoever answers the leader kicks it, before others see that; otherwise it was forgotten. */
    if (client->led && client->leader_answer->status != HF_PENDING && client->leader_until_ns > 0)
        client->core.stats.rescued++;
    client->keeper_until_ns = 0; /* it is awake, and need not be kicked */
    hf__loop_step(client);
    watch_leader(client);
    hf__pollset_init(&set);
    poll_own_lane(client, &set);
    client->keeper_tends_calls = tends_calls(client, &set);
    if (client->keeper_tends_calls)
        hf__driver_pollset(&client->core.driver, HF__LANE_CALL, &set);
    hf__pollset_until(&set, hf__core_deadline(&client->core));
    hf__pollset_add(&set, client->keeper_fd, POLLIN);
    client->keeper_until_ns = set.deadline_ns;
    hf__entry_unlock(client);
    sleep_on(&set);
    pthread_mutex_lock(&client->mutex);
    if (set.fds[set.count - 1].revents)
        drain(client->keeper_fd);
}

static void *run_keeper(void *argument)
{
    struct hf_client *client = argument;

    pthread_setname_np(pthread_self(), "holdfast");
    pthread_mutex_lock(&client->mutex);
    while (!client->keeper_stops)
        keep(client);
    client->has_keeper = false;
    hf__entry_unlock(client);
    return NULL;
}

int hf__loop_start_keeper(struct hf_client *client)
{
    sigset_t all;
    sigset_t before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    client->keeper_until_ns = 0;
    client->has_keeper = true;
    failed = pthread_create(&client->keeper, NULL, run_keeper, client);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        return HF_OK;
    client->has_keeper = false;
    return HF_ESYSTEM;
}

void hf__loop_stop_keeper(struct hf_client *client)
{
    if (!client->has_keeper)
        return;
    client->keeper_stops = true;
    kick_keeper(client);
    hf__entry_unlock(client);
    pthread_join(client->keeper, NULL);
    pthread_mutex_lock(&client->mutex);
}

void hf__loop_linger(struct hf_client *client, uint64_t deadline_ns)
{
    struct hf__pollset set;

    hf__loop_pollset(client, &set);
    hf__pollset_until(&set, deadline_ns);
    hf__pollset_add(&set, client->keeper_fd, POLLIN);
    hf__entry_unlock(client);
    sleep_on(&set);
    pthread_mutex_lock(&client->mutex);
    if (set.fds[set.count - 1].revents)
        drain(client->keeper_fd);
}
