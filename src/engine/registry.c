/* registry.c: which engines and recipes are in this build?
 *
 * A literal table: adding an engine is one folder and one line here. */
#include "engine/registry.h"

#include <assert.h>
#include <string.h>

extern const struct hf__engine hf__embedded_engine;
extern const struct hf__engine hf__redis_engine;
extern const struct hf__engine hf__redis_quorum_engine;
extern const struct hf__engine hf__zookeeper_engine;
extern const struct hf__engine hf__etcd_engine;
extern const struct hf__engine hf__mysql_engine;
#if HF_HAS_POSTGRES
extern const struct hf__engine hf__postgres_engine;
#endif

static const struct hf__engine *const engines[] = {
    &hf__embedded_engine,
    &hf__redis_engine,
    &hf__redis_quorum_engine,
    &hf__zookeeper_engine,
    &hf__etcd_engine,
    &hf__mysql_engine,
#if HF_HAS_POSTGRES
    &hf__postgres_engine,
#endif
    NULL,
};

const struct hf__engine *hf__registry_engine(size_t index)
{
    return index < sizeof(engines) / sizeof(*engines) ? engines[index] : NULL;
}

const struct hf__engine *hf__registry_find(const char *scheme)
{
    assert(scheme);

    for (size_t i = 0; engines[i]; i++) {
        for (const char *const *known = engines[i]->url_schemes; *known; known++) {
            if (strcmp(*known, scheme) == 0)
                return engines[i];
        }
    }
    return NULL;
}

const struct hf__recipe *hf__registry_recipe(const struct hf__engine *engine, const char *name)
{
    assert(engine && engine->recipes[0]);

    if (!name || !*name)
        return engine->recipes[0];

    for (const struct hf__recipe *const *recipe = engine->recipes; *recipe; recipe++) {
        if (strcmp((*recipe)->name, name) == 0)
            return *recipe;
    }
    return NULL;
}
