/* witness.c: what did a client ask, and what was it told?
 *
 * Noted at the seam, where questions go down and answers come up, so that the judge can say later
 * whether a claim's answer was one that it had reason to give. */
#include <string.h>

#include "simulation.h"

static struct attempt *attempt_of(struct client *client, const struct hf__turn *turn)
{
    if (!turn || !turn->claim || !turn->claim->terms.user)
        return NULL;
    return &client->world->attempts[(uintptr_t)turn->claim->terms.user - 1];
}

void witness_question(struct client *client, const struct question *question)
{
    struct world *world = client->world;
    const struct hf__turn *turn = hf__turn_find(client->core, question->ticket.claim_id);
    struct attempt *attempt = attempt_of(client, turn);
    struct record *record;

    TRACE(world, question->name, "client %d asks %s, turn %llx (round %u)", client->index,
          report_request(question->ticket.kind), (unsigned long long)question->ticket.claim_id,
          question->ticket.round);
    world_mix(world, question->ticket.claim_id ^ question->ticket.round);
    if (!turn)
        return;
    if (question->ticket.kind == HF__REQUEST_RELEASE && world->plan.stores > 1 &&
        (size_t)__builtin_popcount(turn->ballot.stragglers) < world->plan.stores)
        world_point(world, POINT_QUORUM_STRAGGLER);
    record = record_get(world, question->token);
    record->client = client->index;
    record->name = question->name;
    if (!attempt)
        return;
    if (question->ticket.kind == HF__REQUEST_CLAIM) {
        record->attempt = (size_t)(attempt - world->attempts);
        attempt->asked_store = true;
        memcpy(attempt->token, question->token, HF__TOKEN_BYTES);
        if (turn->proposal > 0)
            world_point(world, POINT_QUORUM_PHASE_2);
    }
    if (question->ticket.kind == HF__REQUEST_RENEW)
        attempt->confirmed = true;
}

static void note_crowd(struct client *client, const struct hf__turn *turn)
{
    struct record *record = record_get(client->world, turn->token);

    if (record->crowded)
        return;
    record->crowded = true;
    record->crowded_number = client->core->next_number;
}

static void note_place(struct world *world, struct attempt *attempt, const struct hf__reply *reply)
{
    if (reply->kind == HF__REPLY_GONE && attempt->heard_busy) {
        if (attempt->confirmed)
            world_point(world, POINT_LATE_GRANT_GONE);
        attempt->lost_place = true;
    }
    if (reply->kind == HF__REPLY_QUEUED && attempt->lost_place) {
        attempt->lost_place = false;
        world_point(world, POINT_REQUEUED);
    }
}

void witness_reply(struct client *client, const struct hf__reply *reply)
{
    struct world *world = client->world;
    const struct hf__turn *turn = hf__turn_find(client->core, reply->ticket.claim_id);
    struct attempt *attempt = attempt_of(client, turn);
    bool news = reply->ticket.kind == HF__REQUEST_NONE;
    bool stale =
        news && reply->kind == HF__REPLY_GRANTED && turn && reply->fence <= turn->fence_passed;

    TRACE(world, turn ? turn->name->text[1] - '0' : -1,
          "client %d hears %s to %s, turn %llx (round %u)%s", client->index,
          report_reply(reply->kind), report_request(reply->ticket.kind),
          (unsigned long long)reply->ticket.claim_id, reply->ticket.round,
          reply->others_wait ? ", others wait" : "");
    world_mix(world, (uint64_t)reply->kind << 32 ^ reply->ticket.claim_id);
    if (!turn || stale || (!news && reply->ticket.round != turn->round)) {
        world_point(world, POINT_LATE_ANSWER_DROPPED);
        return;
    }
    if ((reply->kind == HF__REPLY_GRANTED && reply->others_wait) ||
        (reply->kind == HF__REPLY_CROWDED && turn->hold))
        note_crowd(client, turn);
    if (reply->ticket.kind == HF__REQUEST_RELEASE && reply->kind == HF__REPLY_UNKNOWN)
        record_get(world, turn->token)->released_unanswered = true;
    if (reply->ticket.kind == HF__REQUEST_RELEASE && reply->kind == HF__REPLY_GONE &&
        !reply->released && record_get(world, turn->token)->released_unanswered)
        world_point(world, POINT_RELEASE_RETRY_NOT_THERE);
    if (!attempt)
        return;
    if (news && reply->kind == HF__REPLY_GRANTED)
        attempt->appointed = true;
    note_place(world, attempt, reply);
    if (reply->kind == HF__REPLY_QUEUED || reply->kind == HF__REPLY_REFUSED)
        attempt->heard_busy = true;
    if (reply->ticket.kind == HF__REQUEST_CLAIM && reply->kind == HF__REPLY_UNKNOWN)
        attempt->unknown = true;
}
