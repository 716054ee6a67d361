/* scene.c: where a fault case plays: processes that come and go, and one log of what they did.
 *
 * The director forks actors, kills, stops and continues them, and in the end reads the log. It
 * writes a kill down before it sends it: until then the actor certainly lived. What an actor does
 * is written down by itself, with the clock read on the safe side (history.h).
 *
 * An actor that fails a CHECK exits with 1, and scene_leave fails the case. The director dies by
 * a failed CHECK too; actors then go with it (PR_SET_PDEATHSIG). */

#include "scene.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 1

void scene_begin(struct scene *scene, size_t records_max)
{
    void *memory =
        mmap(NULL, sizeof(struct stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    scene->stage = (struct stage *)memory;
    scene->history = history_new(records_max);
}

void scene_end(struct scene *scene)
{
    for (int i = 0; i < ACTORS_MAX; i++)
        CHECK_NUMBER(0, scene->actors[i].pid);
    history_free(scene->history);
    munmap(scene->stage, sizeof(struct stage));
}

struct name scene_name(const struct scene *scene, uint32_t lock)
{
    char suffix[32];

    snprintf(suffix, sizeof suffix, "lock-%u", lock);
    return world_name(&scene->world, suffix);
}

/* --- the director --- */

void scene_enter(struct scene *scene, int part, void (*role)(struct scene *scene, int part))
{
    pid_t director = getpid();
    pid_t pid;

    CHECK(part >= 0 && part < ACTORS_MAX);
    CHECK_NUMBER(0, scene->actors[part].pid);
    fflush(NULL);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != director)
            _exit(1);
        role(scene, part);
        exit(0); /* so that a sanitizer has its say */
    }
    scene->actors[part].pid = pid;
}

/* What the actor told of itself counts on, whoever plays the part next. */
static int reap(struct scene *scene, int part)
{
    struct stage *stage = scene->stage;
    int how = 0;

    CHECK(waitpid(scene->actors[part].pid, &how, 0) == scene->actors[part].pid);
    scene->actors[part].pid = 0;
    atomic_fetch_add(&stage->rescued_before, atomic_exchange(&stage->rescued[part], 0));
    return how;
}

void scene_kill(struct scene *scene, int part)
{
    struct history_record record = { .kind = HISTORY_KILL,
                                     .process = scene->actors[part].pid,
                                     .at_ns = history_now_ns() };
    int how;

    CHECK(record.process > 0);
    history_add(scene->history, &record);
    CHECK(kill(record.process, SIGKILL) == 0);
    how = reap(scene, part);
    CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

void scene_stop(struct scene *scene, int part)
{
    int how = 0;

    CHECK(scene->actors[part].pid > 0);
    CHECK(kill(scene->actors[part].pid, SIGSTOP) == 0);
    CHECK(waitpid(scene->actors[part].pid, &how, WUNTRACED) == scene->actors[part].pid);
    CHECK(WIFSTOPPED(how));
}

void scene_continue(struct scene *scene, int part)
{
    CHECK(scene->actors[part].pid > 0);
    CHECK(kill(scene->actors[part].pid, SIGCONT) == 0);
}

void scene_leave(struct scene *scene, int part)
{
    int how = reap(scene, part);

    CHECK(WIFEXITED(how));
    CHECK_NUMBER(0, WEXITSTATUS(how));
}

static int count_one(const struct hf_holding *holding, void *context)
{
    size_t *count = (size_t *)context;

    (void)holding;
    (*count)++;
    return 0;
}

size_t scene_count_listed(struct scene *scene)
{
    struct name glob = world_glob(&scene->world);
    hf_client *client = world_open(&scene->world);
    size_t count = 0;

    CHECK_STATUS(HF_OK, hf_client_list(client, glob.text, count_one, &count));
    hf_close(client);
    return count;
}

struct history_report scene_judge(struct scene *scene, enum history_order order)
{
    struct history_report report = history_check(scene->history, order);
    uint64_t rescued = atomic_load(&scene->stage->rescued_before);

    printf("    %zu grants, %zu kills (%zu of holders), %llu rescued\n", report.grants,
           report.kills, report.killed_holders, (unsigned long long)rescued);
    if (!report.kept)
        fprintf(stderr, "%s\n", report.text);
    CHECK(report.kept);
    CHECK(report.grants > 0);
    CHECK_NUMBER(0, rescued);
    CHECK_NUMBER(0, scene_count_listed(scene));
    return report;
}

bool scene_is_fair(const struct scene *scene)
{
    return world_recipe(scene->world.url).promises & HF_PROMISE_FAIR;
}

struct history_report scene_judge_store(struct scene *scene, enum history_order order)
{
    struct history_report report;

    scene_order(scene, "proxy pass");
    WAIT_UNTIL(scene_count_listed(scene) == 0);
    WAIT_UNTIL(strcmp(scene_order(scene, "keys").text, "0") == 0);
    report = history_check(scene->history, scene_is_fair(scene) ? order : HISTORY_ANY_ORDER);
    printf("    %zu grants, %zu kills (%zu of holders)\n", report.grants, report.kills,
           report.killed_holders);
    if (!report.kept)
        fprintf(stderr, "%s\n", report.text);
    CHECK(report.kept);
    CHECK(report.grants > 0);
    return report;
}

struct answer scene_order(struct scene *scene, const char *order)
{
    struct answer answer = { "" };
    char line[sizeof answer.text] = "";
    size_t count = 0;

    CHECK(scene->orders >= 0);
    CHECK(dprintf(scene->orders, "%s\n", order) > 0);
    while (count == 0 || line[count - 1] != '\n') {
        CHECK(count < sizeof line - 1);
        CHECK(read(scene->orders, line + count, 1) == 1);
        count++;
    }
    line[count - 1] = '\0';
    if (strncmp(line, "ok", 2) != 0)
        fprintf(stderr, "%s: %s\n", order, line);
    CHECK(strncmp(line, "ok", 2) == 0);
    if (count > 3)
        snprintf(answer.text, sizeof answer.text, "%s", line + 3);
    return answer;
}

uint64_t scene_stat(struct scene *scene, const char *name)
{
    struct answer answer = scene_order(scene, "proxy stat");
    const char *at = strstr(answer.text, name);

    CHECK(at);
    return strtoull(at + strlen(name), NULL, 10);
}

/* --- actors --- */

struct turn scene_ask(struct scene *scene, uint32_t lock, int mode)
{
    struct turn turn = { .record = { .lock = lock, .mode = mode, .process = getpid() },
                         .ends = scene->orders >= 0 };

    turn.record.attempt = history_attempt(scene->history);
    scene_note(scene, &turn, HISTORY_ASK, history_now_ns());
    return turn;
}

void scene_note(struct scene *scene, struct turn *turn, enum history_kind kind, uint64_t at_ns)
{
    turn->record.kind = kind;
    turn->record.at_ns = at_ns;
    history_add(scene->history, &turn->record);
}

void scene_granted(struct scene *scene, struct turn *turn, hf_grant *grant)
{
    uint64_t now_ns = history_now_ns();
    int64_t remaining_ms = hf_grant_remaining_ms(grant);

    turn->grant = grant;
    turn->record.fence = hf_grant_fence(grant);
    turn->record.until_ns = turn->ends ? now_ns + (uint64_t)remaining_ms * NS_PER_MS : 0;
    scene_note(scene, turn, HISTORY_GRANTED, now_ns);
}

void scene_valid(struct scene *scene, struct turn *turn, uint64_t look_ns)
{
    int64_t remaining_ms = hf_grant_remaining_ms(turn->grant);

    if (turn->ends)
        turn->record.until_ns = look_ns + (uint64_t)remaining_ms * NS_PER_MS;
    scene_note(scene, turn, HISTORY_VALID, look_ns);
}

int scene_take(struct scene *scene, hf_client *client, struct turn *turn,
               const struct hf_acquire_options *options)
{
    struct name name = scene_name(scene, turn->record.lock);
    hf_grant *grant = NULL;
    int status = hf_acquire(client, name.text, options, &grant);

    turn->ends = turn->ends || (options && options->fixed_lease);
    if (status == HF_OK)
        scene_granted(scene, turn, grant);
    return status;
}

int scene_give_back(struct scene *scene, struct turn *turn)
{
    uint64_t now_ns = history_now_ns();

    /* Not believed any more: the last look that found it valid was its end. */
    if (hf_grant_valid(turn->grant))
        scene_note(scene, turn, HISTORY_END, now_ns);
    return hf_release(turn->grant);
}

/* Every look is written down, but not more of them than the log can bear: whoever dies here has
 * just been seen. */
bool scene_hold_until(struct scene *scene, struct turn *turn, uint64_t until_ns)
{
    uint64_t look_ns = history_now_ns();
    uint64_t valid_ns = 0;
    uint64_t noted_ns = 0;

    while (look_ns < until_ns && hf_grant_valid(turn->grant)) {
        valid_ns = look_ns;
        if (turn->ends && look_ns - noted_ns >= LOOK_MS * NS_PER_MS) {
            scene_valid(scene, turn, look_ns);
            noted_ns = look_ns;
        }
        if (hf_grant_remaining_ms(turn->grant) > 10)
            world_sleep_ms(LOOK_MS);
        look_ns = history_now_ns();
    }
    if (valid_ns > noted_ns)
        scene_note(scene, turn, HISTORY_VALID, valid_ns);
    return hf_grant_valid(turn->grant);
}

void scene_tell_rescued(struct scene *scene, int part, hf_client *client)
{
    atomic_store(&scene->stage->rescued[part], world_stats(client).rescued);
}
