/* batch.c: what can one thread reach that asks for several locks at once?
 *
 * It starts a claim for each lock, waits for all of them, gives all of them back without waiting,
 * and then waits until the client has said that each of them is released. So the requests travel
 * together, and the thread never waits for one round trip at a time.
 *
 * What can go wrong: a claim or a release fails: its answer is passed on, and the process ends. */
#include <errno.h>
#include <poll.h>

#include "side.h"

static int take_all(struct bench_seat *seat)
{
    struct bench_batch *batch = &seat->batch;

    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        int status = hf_claim_start(seat->client, batch->names[i], NULL, &batch->claims[i]);

        if (status != HF_OK)
            return status;
    }
    for (uint32_t i = 0; i < BENCH_BATCH; i++) {
        int status = hf_claim_wait(batch->claims[i], HF_FOREVER, &batch->grants[i]);

        if (status != HF_OK)
            return status;
        hf_claim_free(batch->claims[i]);
    }
    return HF_OK;
}

static int wait_for_event(hf_client *client)
{
    struct pollfd ready = { .fd = hf_client_event_fd(client), .events = POLLIN };

    if (ready.fd < 0)
        return ready.fd;
    return poll(&ready, 1, -1) < 0 && errno != EINTR ? HF_ESYSTEM : HF_OK;
}

static int give_all(struct bench_seat *seat)
{
    struct hf_event event = { .struct_size = sizeof(event) };
    uint32_t left = BENCH_BATCH;

    for (uint32_t i = 0; i < BENCH_BATCH; i++)
        hf_release_start(seat->batch.grants[i]);
    while (left > 0) {
        int found = hf_client_next_event(seat->client, &event);
        int status = found == 0 ? wait_for_event(seat->client) : found < 0 ? found : HF_OK;

        if (found == 1 && event.kind == HF_EVENT_RELEASED) {
            status = event.status;
            left--;
        }
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

const struct bench_side bench_side_batch = { "ours", take_all, give_all, NULL, NULL };
