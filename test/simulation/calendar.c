/* calendar.c: what happens next?
 *
 * A binary heap of events by time; events of the same instant come in the order in which they were
 * added, so that a seed is one story and not several. */
#include <assert.h>
#include <stdlib.h>

#include "simulation.h"

static bool comes_first(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void make_room(struct calendar *calendar)
{
    struct event *events;

    if (calendar->count < calendar->room)
        return;
    calendar->room = calendar->room ? calendar->room * 2 : 1024;
    events = realloc(calendar->events, calendar->room * sizeof(*events));
    if (!events)
        abort();
    calendar->events = events;
}

void calendar_add(struct world *world, struct event event)
{
    struct calendar *calendar = &world->calendar;
    size_t place;

    assert(event.at_ns >= world->now_ns);

    make_room(calendar);
    event.order = calendar->next_order++;
    place = calendar->count++;
    while (place > 0 && comes_first(&event, &calendar->events[(place - 1) / 2])) {
        calendar->events[place] = calendar->events[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    calendar->events[place] = event;
}

bool calendar_take(struct world *world, struct event *out_event)
{
    struct calendar *calendar = &world->calendar;
    struct event last;
    size_t place = 0;

    if (calendar->count == 0)
        return false;

    *out_event = calendar->events[0];
    last = calendar->events[--calendar->count];
    while (place * 2 + 1 < calendar->count) {
        size_t child = place * 2 + 1;

        if (child + 1 < calendar->count &&
            comes_first(&calendar->events[child + 1], &calendar->events[child]))
            child++;
        if (!comes_first(&calendar->events[child], &last))
            break;
        calendar->events[place] = calendar->events[child];
        place = child;
    }
    calendar->events[place] = last;
    return true;
}
