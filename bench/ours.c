/* ours.c: the library, as any program would use it: through its header, with its defaults. */
#include <errno.h>
#include <string.h>

#include "say.h"
#include "side.h"

static int acquire(struct bench_seat *seat)
{
    return hf_acquire(seat->client, seat->name, NULL, &seat->grant);
}

static int release(struct bench_seat *seat)
{
    return hf_release(seat->grant);
}

const struct bench_side bench_side_ours = { "ours", acquire, release, NULL, NULL };

void bench_side_fail(const struct bench_seat *seat, const char *verb, int status)
{
    const char *hint = bench_say_hint(status);

    if (seat->side == &bench_side_ours || seat->side == &bench_side_batch)
        bench_floor_fail(seat->floor, bench_say_exit_of(status), "%s%s%s%s",
                         hf_client_error(seat->client), *hint ? " (" : "", hint, *hint ? ")" : "");
    else
        bench_floor_fail(seat->floor, BENCH_EXIT_SYSTEM, "%s: %s: %s", seat->side->name, verb,
                         strerror(errno));
}
