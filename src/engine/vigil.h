/* vigil.h: when is it worth for a claim to look again? */
#ifndef HF_ENGINE_VIGIL_H
#define HF_ENGINE_VIGIL_H

#include "base/list.h"
#include "engine/engine.h"

/* Of one connection. */
struct hf__vigils {
    const struct hf__env *env;
    struct hf__list list;
};

void hf__vigil_init(struct hf__vigils *vigils, const struct hf__env *env);
/* The claim looks when so many milliseconds are over, and no longer when it was to before. */
void hf__vigil_set(struct hf__vigils *vigils, uint64_t claim_id, uint64_t now_ns, uint64_t left_ms);
/* 1: *out_reply is news for somebody who should look. */
int hf__vigil_due(struct hf__vigils *vigils, uint64_t now_ns, struct hf__reply *out_reply);
uint64_t hf__vigil_first(const struct hf__vigils *vigils);
void hf__vigil_done(struct hf__vigils *vigils);

#endif
