/* cmd_show.c: who holds this lock, and who waits for it, in which order?
 *
 * The holders first, then the queue. A lock that nobody holds or waits for is status 1: locks have
 * no existence of their own, so this is not an error but the answer "free". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <holdfast/holdfast.h>

#include "arguments.h"
#include "exit.h"
#include "json.h"
#include "listing.h"
#include "say.h"
#include "table.h"
#include "text.h"
#include "verbs.h"

enum { JSON = ARGUMENTS_OWN };

const char cmd_show_page[] =
    "Usage: holdfast show [OPTION]... NAME\n"
    "\n"
    "Shows the holders of a lock and its queue, in order. Status 1: nobody holds it or waits.\n"
    "\n"
    "  --json             an object: name, name_hex, holders and waiters; these are arrays of\n"
    "                     objects with the keys of 'holdfast ls --json'\n"
    "  -u, --url URL      where the locks live\n"
    "  --require LIST     refuse a store that does not promise these\n"
    "  -q, --quiet        nothing when there is nobody\n"
    "  -v, --verbose      say more\n"
    "\n"
    "The fence is what 'holdfast break NAME --fence N' asks for.\n";

static void print_part(struct json *json, const struct listing *listing, bool waiting)
{
    json_open(json, waiting ? "waiters" : "holders", '[');
    for (size_t i = 0; i < listing->count; i++) {
        if (listing->entries[i].waiting != waiting)
            continue;
        json_open(json, NULL, '{');
        listing_json(json, &listing->entries[i]);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void print_json(const struct listing *listing, const char *name)
{
    struct json json = { .out = stdout };

    json_open(&json, NULL, '{');
    json_string(&json, "name", name);
    json_hex(&json, "name_hex", name);
    print_part(&json, listing, false);
    print_part(&json, listing, true);
    json_close(&json, '}');
}

static void print_table(const struct listing *listing)
{
    struct table table = { .columns = 7 };

    table_add(&table, (const char *const[]){ "PLACE", "MODE", "WHO", "FENCE", "AGE", "REMAINING",
                                             "PURPOSE" });
    for (size_t i = 0; i < listing->count; i++) {
        const struct hf_holding *entry = &listing->entries[i];
        char place[24] = "holds";
        char who[LISTING_WHO_BYTES];
        char fence[24] = "";
        char age[TEXT_AGE_BYTES];
        char remaining[TEXT_AGE_BYTES];

        if (entry->waiting)
            snprintf(place, sizeof(place), "%" PRIu32, entry->position);
        if (entry->fence)
            snprintf(fence, sizeof(fence), "%" PRIu64, entry->fence);
        table_add(&table, (const char *const[]){
                              place, listing_mode(entry), listing_who(entry, who), fence,
                              text_age(entry->age_ms, age),
                              text_age(entry->remaining_ms, remaining), entry->purpose });
    }
    table_print(&table);
    table_done(&table);
}

static int show(const struct arguments_common *common, const char *name, bool as_json)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;
    struct listing listing = { 0 };
    hf_client *client = NULL;
    int exit_status = arguments_open(common, &options, &client);
    char *glob;
    int status;

    if (exit_status)
        return exit_status;

    glob = listing_glob_of(name);
    status = listing_collect(&listing, client, glob);
    free(glob);
    if (status < 0) {
        exit_status = exit_failed(client, status);
    } else {
        exit_status = listing.count ? EXIT_FINE : EXIT_NOBODY;
        if (as_json)
            print_json(&listing, name);
        else if (listing.count)
            print_table(&listing);
        else if (!common->quiet)
            say("nobody holds '%s' or waits for it", name);
    }
    listing_done(&listing);
    hf_close(client);
    return exit_status;
}

int cmd_show(int argc, char **argv)
{
    static const struct option longs[] = { ARGUMENTS_COMMON_LONG,
                                           { "json", no_argument, NULL, JSON },
                                           { NULL, 0, NULL, 0 } };
    struct arguments arguments = {
        .verb = "show", .argc = argc, .argv = argv, .shorts = ARGUMENTS_COMMON_SHORT, .longs = longs
    };
    const char *name = NULL;
    bool as_json = false;
    int option;

    while ((option = arguments_next(&arguments)) != ARGUMENTS_END) {
        if (option == ARGUMENTS_DONE)
            return arguments.exit_status;
        if (option == JSON)
            as_json = true;
        else if (arguments_one_word(&arguments, &name))
            return EXIT_USAGE;
    }
    if (!name)
        return arguments_wrong(&arguments, "which lock? Its NAME is missing");
    if (arguments_name(name))
        return EXIT_NAME;
    return show(&arguments.common, name, as_json);
}
