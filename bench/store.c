/* store.c: which engine and recipe does a URL mean?
 *
 * The library's own table of recipes says which schemes there are; the recipe is the one that the
 * URL names, or the engine's default. No URL at all is $HOLDFAST_URL, and without it the engine
 * that comes first. A scheme that the table does not have keeps its own name here: opening it
 * will fail, and tell more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "job.h"

static bool begins_with_scheme(const char *form, const char *url)
{
    size_t bytes = strcspn(url, ":");

    return strncmp(form, url, bytes) == 0 && form[bytes] == ':';
}

static bool speaks(const struct hf_recipe_info *info, const char *url)
{
    const char *form = info->url_forms;

    while (form && *form) {
        if (begins_with_scheme(form, url))
            return true;
        form = strchr(form, ' ');
        form = form ? form + 1 : NULL;
    }
    return false;
}

/* How the URL names its recipe; "" if it does not. */
static void find_recipe(const char *url, char *buffer, size_t buffer_bytes)
{
    const char *option = strchr(url, '?');

    buffer[0] = '\0';
    while (option) {
        option++;
        if (strncmp(option, "recipe=", strlen("recipe=")) == 0) {
            option += strlen("recipe=");
            snprintf(buffer, buffer_bytes, "%.*s", (int)strcspn(option, "&"), option);
            return;
        }
        option = strchr(option, '&');
    }
}

static void find_names(const char *url, struct bench_store *store)
{
    struct hf_recipe_info info = { .struct_size = sizeof(info) };
    char wanted[BENCH_TEXT_BYTES];

    find_recipe(url, wanted, sizeof(wanted));
    for (size_t i = 0; hf_recipe_info(i, &info) > 0; i++) {
        bool meant = *url ? speaks(&info, url) : i == 0;
        bool chosen = *wanted ? strcmp(wanted, info.recipe) == 0 : info.is_default;

        if (!meant || !chosen)
            continue;
        snprintf(store->engine, sizeof(store->engine), "%s", info.engine);
        snprintf(store->recipe, sizeof(store->recipe), "%s", info.recipe);
        return;
    }
    snprintf(store->engine, sizeof(store->engine), "%.*s", (int)strcspn(url, ":"), url);
    snprintf(store->recipe, sizeof(store->recipe), "%s", wanted);
}

void bench_store_find(const char *url, struct bench_store *out_store)
{
    struct bench_store store = { .run = (uint64_t)getpid() };

    if (!url || !*url)
        url = getenv("HOLDFAST_URL");
    find_names(url ? url : "", &store);
    if (getrandom(&store.run, sizeof(store.run), 0) != (ssize_t)sizeof(store.run))
        store.run ^= (uint64_t)getpid() << 32;
    store.raw = bench_raw_find(store.engine);
    *out_store = store;
}
