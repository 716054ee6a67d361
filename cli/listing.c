/* listing.c: how is what the library lists kept, and put into words?
 *
 * The library's records live only while it shows them; here they are copied into one array, in
 * the order in which they came: name by name, holders before waiters, waiters in the order of the
 * queue. What is unknown stays unknown (0, -1, ""): it is shown as "-", and in JSON as null. */
#include "listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

static int keep(const struct hf_holding *holding, void *context)
{
    struct listing *listing = context;
    struct hf_holding *entry;

    if (listing->count == listing->room) {
        listing->room = listing->room ? listing->room * 2 : 64;
        listing->entries = memory_grow(listing->entries, listing->room, sizeof(*listing->entries));
    }
    entry = &listing->entries[listing->count++];
    *entry = *holding;
    entry->name = memory_copy(holding->name);
    entry->host = memory_copy(holding->host ? holding->host : "");
    entry->purpose = memory_copy(holding->purpose ? holding->purpose : "");
    return 0;
}

int listing_collect(struct listing *listing, hf_client *client, const char *glob)
{
    return hf_client_list(client, glob, keep, listing);
}

static void drop(const char *owned)
{
    union {
        const char *kept;
        char *given;
    } text = { .kept = owned };

    free(text.given);
}

void listing_done(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++) {
        drop(listing->entries[i].name);
        drop(listing->entries[i].host);
        drop(listing->entries[i].purpose);
    }
    free(listing->entries);
    *listing = (struct listing){ 0 };
}

char *listing_glob_of(const char *name)
{
    char *glob = memory_get(strlen(name) * 2 + 1, 1);
    char *end = glob;

    for (; *name; name++) {
        if (*name == '*' || *name == '?' || *name == '\\')
            *end++ = '\\';
        *end++ = *name;
    }
    *end = '\0';
    return glob;
}

size_t listing_same_name(const struct listing *listing, size_t first)
{
    size_t count = 1;

    while (first + count < listing->count &&
           strcmp(listing->entries[first].name, listing->entries[first + count].name) == 0)
        count++;
    return count;
}

const char *listing_who(const struct hf_holding *entry, char out_who[LISTING_WHO_BYTES])
{
    const char *host = *entry->host ? entry->host : "?";

    if (entry->pid > 0)
        snprintf(out_who, LISTING_WHO_BYTES, "%s:%lld", host, (long long)entry->pid);
    else
        snprintf(out_who, LISTING_WHO_BYTES, "%s", host);
    return out_who;
}

const char *listing_mode(const struct hf_holding *entry)
{
    return entry->mode == HF_SHARED ? "shared" : "exclusive";
}

void listing_json(struct json *json, const struct hf_holding *entry)
{
    json_string(json, "name", entry->name);
    json_hex(json, "name_hex", entry->name);
    json_string(json, "mode", listing_mode(entry));
    json_bool(json, "waiting", entry->waiting);
    json_number(json, "position", entry->position);
    json_fence(json, "fence", entry->fence);
    json_known(json, "remaining_ms", entry->remaining_ms);
    json_known(json, "age_ms", entry->age_ms);
    json_string(json, "host", entry->host);
    json_known(json, "pid", entry->pid > 0 ? entry->pid : -1);
    json_string(json, "purpose", entry->purpose);
}
