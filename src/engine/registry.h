/* registry.h: which engines and recipes are in this build? */
#ifndef HF_ENGINE_REGISTRY_H
#define HF_ENGINE_REGISTRY_H

#include "engine/engine.h"

/* index 0, 1, ... until NULL. */
const struct hf__engine *hf__registry_engine(size_t index);

/* By the word before the colon; NULL: none. */
const struct hf__engine *hf__registry_find(const char *scheme);

/* The recipe of that name; NULL or "" means the default one; NULL: no such recipe. */
const struct hf__recipe *hf__registry_recipe(const struct hf__engine *engine, const char *name);

#endif
