/* verdict.c: what does a text mean by which the functions of a database answer about a claim?
 *
 * MySQL and PostgreSQL answer in the same words, but for what only one of them has to tell. */
#include "engine/verdict.h"

#include <stdio.h>
#include <string.h>

bool hf__verdict_is_fence(uint64_t fence)
{
    return fence > 0 && fence < HF__VERDICT_FENCE_MAX && fence % 256 == 0;
}

bool hf__verdict_granted(const char *answer, struct hf__reply *out_reply)
{
    unsigned long long fence;
    unsigned waiting;

    if (sscanf(answer, "granted %llu %u", &fence, &waiting) != 2 || !hf__verdict_is_fence(fence))
        return false;
    out_reply->kind = HF__REPLY_GRANTED;
    out_reply->fence = fence;
    out_reply->others_wait = waiting > 0;
    return true;
}

const struct hf__holder *hf__verdict_holder(const char *answer, const char digits[17],
                                            uint64_t fence, struct hf__bearer *bearer)
{
    const char *hex = strrchr(answer, ' ') + 1;
    char who[HF__BEARER_BYTES];
    size_t bytes = 0;

    for (; hex[0] && hex[1] && bytes < sizeof(who); hex += 2) {
        const char *high = strchr(digits, hex[0]);
        const char *low = strchr(digits, hex[1]);

        if (!high || !low)
            return NULL;
        who[bytes++] = (char)((high - digits) * 16 + (low - digits));
    }
    hf__bearer_read(who, bytes, bearer);
    bearer->holder.fence = fence;
    return bearer->is_known ? &bearer->holder : NULL;
}

bool hf__verdict_answers(enum hf__request_kind request, enum hf__reply_kind answer)
{
    if (answer == HF__REPLY_FAILED || answer == HF__REPLY_GONE)
        return true;
    if (request == HF__REQUEST_BREAK)
        return answer == HF__REPLY_DONE;
    return request != HF__REQUEST_RELEASE && answer != HF__REPLY_DONE;
}
