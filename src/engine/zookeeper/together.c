/* together.c: how do many claims of one lock come to know their line, without a list for each?
 *
 * A claim that has asked for its node needs a list that is asked for later. The first asks for both
 * at once. While that list is under way, others that come ask for their nodes alone; when it is
 * answered, one more list serves all of them. So a crowd that comes at once needs a few lists, and
 * not one for each, which would all be as long as the crowd.
 *
 * What can go wrong: who wanted a list has left meanwhile: it is passed over. The connection ends:
 * whoever waits is told so, and asks anew. */
#include <string.h>

#include "engine/zookeeper/zookeeper.h"

static bool is_neighbour(const struct hf__place *place, const struct hf__place *other)
{
    return place->path_hash == other->path_hash && strcmp(place->path, other->path) == 0;
}

static bool is_under_way(const struct hf__zookeeper *conn, const struct hf__place *place)
{
    HF__LIST_FOR(member, &conn->roll.members)
    {
        const struct hf__place *other = HF__LIST_ENTRY(member, struct hf__place, entry.member);

        if (other->list_number != 0 && is_neighbour(place, other))
            return true;
    }
    return false;
}

/* For all of this line that want one. */
static void ask_list(struct hf__zookeeper *conn, const struct hf__place *place)
{
    struct hf__zasked *asked =
        hf__ask_about(conn, HF__STEP_TOGETHER, NULL, HF__OPCODE_GET_CHILDREN, place->path);

    hf__ask_watch(conn, true);
    if (!asked)
        return; /* memory ran out: the connection ends */
    if (++conn->list_number == 0)
        conn->list_number = 1;
    asked->index = conn->list_number;
    asked->course = place->path_hash;
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__place *other = HF__LIST_ENTRY(member, struct hf__place, entry.member);

        if (!other->wants_list || !is_neighbour(place, other))
            continue;
        other->wants_list = false;
        other->list_number = conn->list_number;
        other->list_course = other->course;
    }
}

void hf__together_list(struct hf__zookeeper *conn, struct hf__place *place)
{
    place->open++;
    place->wants_list = true;
    if (!is_under_way(conn, place))
        ask_list(conn, place);
}

static void serve(struct hf__zookeeper *conn, struct hf__place *place,
                  const struct hf__zasked *asked, int32_t error, struct hf__jute_reader *answer)
{
    struct hf__jute_reader copy = *answer;
    struct hf__zasked own = *asked;

    place->list_number = 0;
    if (error == HF__ZERROR_OK)
        place->watches_children = true;
    own.step = HF__STEP_CHILDREN;
    own.owner = place;
    own.course = place->list_course;
    if (own.course == place->course)
        conn->recipe->hear(conn, &own, error, &copy);
    answer->broken = answer->broken || copy.broken;
}

void hf__together_hear(struct hf__zookeeper *conn, const struct hf__zasked *asked, int32_t error,
                       struct hf__jute_reader *answer)
{
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__place *place = HF__LIST_ENTRY(member, struct hf__place, entry.member);

        if (place->list_number == asked->index && !answer->broken)
            serve(conn, place, asked, error, answer);
    }
    HF__LIST_FOR(member, &conn->roll.members)
    {
        struct hf__place *place = HF__LIST_ENTRY(member, struct hf__place, entry.member);

        if (place->wants_list && place->path_hash == asked->course && !is_under_way(conn, place))
            ask_list(conn, place);
    }
}
