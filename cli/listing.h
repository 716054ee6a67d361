/* listing.h: who holds and who waits, kept after the library has told it. */
#ifndef CLI_LISTING_H
#define CLI_LISTING_H

#include <holdfast/holdfast.h>

#include "json.h"

#define LISTING_WHO_BYTES 320

/* Begins as { 0 }. The strings of the entries are owned. */
struct listing {
    struct hf_holding *entries;
    size_t count;
    size_t room;
};

/* HF_OK, or what the library answered. */
int listing_collect(struct listing *listing, hf_client *client, const char *glob);
void listing_done(struct listing *listing);

/* A glob that matches this name and no other; to be freed. */
char *listing_glob_of(const char *name);

/* How many entries from `first` on speak of the same name. */
size_t listing_same_name(const struct listing *listing, size_t first);

/* "host:pid", with as much of it as is known. */
const char *listing_who(const struct hf_holding *entry, char out_who[LISTING_WHO_BYTES]);
const char *listing_mode(const struct hf_holding *entry);

/* The keys that ls and show share; the caller opens and closes the object. */
void listing_json(struct json *json, const struct hf_holding *entry);

#endif
