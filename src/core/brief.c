/* brief.c: how is a lock had that nobody else wants?
 *
 * Where the store is memory of ours (recipe->at_hand), whether a lock is free is known within the
 * call. Then a plain acquire needs no claim that could wait, no question that stays open and no
 * timer: the turn goes from idle through asking to held, gets its hold and its handle, and is the
 * caller's; giving it back is as short. Everything that such a turn meets in between (renewal,
 * downgrade, loss, a break, the client's end) is met in the usual way, because it is an ordinary
 * turn.
 *
 * What can go wrong: it is not free, others wait, the terms are not plain, the fence went back,
 * no memory: nothing is left behind, and the caller goes the usual way (claim.c, hold.c), which
 * can wait and knows what to say. */
#include <assert.h>

#include "base/name.h"
#include "core/core.h"

static bool is_plain(const struct hf__core *core, const struct hf__terms *terms)
{
    return core->recipe->at_hand && !core->closing && core->stats.held < HF__GRANTS_MAX &&
           terms->mode == HF_EXCLUSIVE && terms->owner.kind == HF_OWNER_NONE &&
           !terms->fixed_lease && terms->max_hold_ns == 0 && terms->grace_ns == 0 &&
           !terms->purpose;
}

struct hf_grant *hf__brief_take(struct hf__core *core, const char *text,
                                const struct hf__terms *terms, void *client, uint64_t now_ns)
{
    struct hf__turn *turn;
    struct hf_grant *grant = NULL;
    struct hf__name *name;
    uint64_t fence;
    size_t bytes;

    if (!is_plain(core, terms) || hf__name_check(text, &bytes) < 0 ||
        hf__names_get(core, text, bytes, &name) < 0)
        return NULL;
    assert(!core->recipe->hands_on); /* or the local queue would be passed by */

    turn = hf__turn_try(core, name, terms, now_ns, &fence);
    if (!turn) {
        hf__names_settle(core, name);
        return NULL;
    }
    if (hf__hear_prompt(turn, fence))
        grant = hf__hold_take(turn, terms, client, now_ns);
    if (grant)
        core->stats.acquired++;
    else if (!hf__turn_quit(turn, now_ns)) /* which takes no memory */
        hf__turn_leave(turn, now_ns);
    return grant;
}

bool hf__brief_give(struct hf_grant *grant, uint64_t now_ns)
{
    return grant->core->recipe->at_hand && hf__hold_give(grant, now_ns);
}
