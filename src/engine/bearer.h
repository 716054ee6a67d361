/* bearer.h: how does a claim tell who stands behind it?
 *
 * One line of text beside the claim, in stores that keep bytes and do not look at them:
 * "w grace_ms pid host purpose" (r: a reader); "!" before it: the turn was broken. */
#ifndef HF_ENGINE_BEARER_H
#define HF_ENGINE_BEARER_H

#include "engine/engine.h"

#define HF__WHENCE_BYTES (HF__HOST_BYTES + 24)
#define HF__BEARER_BYTES (HF__PURPOSE_BYTES + HF__HOST_BYTES + 64)

struct hf__bearer {
    bool is_known; /* it is one of ours */
    bool is_broken;
    int mode;
    uint64_t grace_ms;
    struct hf__holder holder;
};

/* "pid host": of this process. */
void hf__bearer_whence(char out_whence[HF__WHENCE_BYTES]);
/* What a CLAIM writes; `purpose` where the claim has none of its own. */
void hf__bearer_write(const struct hf__request *request, const char *whence, const char *purpose,
                      char out_text[HF__BEARER_BYTES]);
/* Of what is not ours: exclusive, and nobody known. Ends at a newline. */
void hf__bearer_read(const char *text, size_t text_bytes, struct hf__bearer *out_bearer);

#endif
