/* verdict.h: what does a text mean by which the functions of a database answer about a claim? */
#ifndef HF_ENGINE_VERDICT_H
#define HF_ENGINE_VERDICT_H

#include "engine/bearer.h"

#define HF__VERDICT_FENCE_MAX (1ull << 62)

/* One of the recipe queue: all of one turn have the same but for the last byte. */
bool hf__verdict_is_fence(uint64_t fence);
/* "granted FENCE WAITING"; false: it is not that. */
bool hf__verdict_granted(const char *answer, struct hf__reply *out_reply);
/* Who it is stands in hex behind the last blank, in these digits; NULL: nobody of ours. */
const struct hf__holder *hf__verdict_holder(const char *answer, const char digits[17],
                                            uint64_t fence, struct hf__bearer *bearer);
/* The core trusts that an engine answers what was asked; a server need not be trusted. */
bool hf__verdict_answers(enum hf__request_kind request, enum hf__reply_kind answer);

#endif
