/* events.c: what does the user have to know, in order?
 *
 * Every handle has room for one pending event, so the queue is bounded and putting one never fails.
 * A later event of the same handle replaces an earlier one and goes to the end; LOST is never
 * replaced while its handle lives. Events of a handle that has ended are dropped, RELEASED
 * excepted: it is the last thing that a handle says, and its memory ends when it is fetched. */
#include <assert.h>

#include "core/core.h"

void hf__events_put(struct hf__core *core, struct hf__note *note, const struct hf_event *event)
{
    bool pending = !hf__list_empty(&note->place);

    if (pending && note->event.kind == HF_EVENT_LOST && event->kind != HF_EVENT_RELEASED)
        return;

    hf__list_remove(&note->place);
    note->event = *event;
    hf__list_append(&core->notes, &note->place);
}

bool hf__events_take(struct hf__core *core, struct hf_event *out_event, struct hf_grant **out_ended)
{
    struct hf__note *note;

    if (hf__list_empty(&core->notes))
        return false;

    note = HF__LIST_ENTRY(core->notes.next, struct hf__note, place);
    hf__list_remove(&note->place);
    *out_event = note->event;
    *out_ended = NULL;
    if (note->event.kind == HF_EVENT_RELEASED)
        *out_ended = HF__LIST_ENTRY(note, struct hf_grant, note);
    return true;
}

void hf__events_drop(struct hf__note *note)
{
    hf__list_remove(&note->place);
}

/* Whoever is called at once, while the core's mutex is held, runs into it and sleeps again. */
void hf__events_ring(struct hf__core *core, struct hf__wake *wake)
{
    if (!hf__wake_mark(wake))
        return;
    if (core->rings.count < HF__RINGS_MAX)
        core->rings.wakes[core->rings.count++] = wake;
    else
        hf__wake_call(wake);
}

void hf__events_answer(struct hf__core *core, struct hf__answer *answer, int status)
{
    assert(answer->status == HF_PENDING);
    assert(status != HF_PENDING);

    answer->status = status;
    hf__events_ring(core, &answer->wake);
}
