/* cmd_ls.c: who holds, who waits?
 *
 * One row for each holder, with how many wait behind; one for a name that has waiters and no holder
 * at this instant. --json gives every holder and every waiter. Locks move while they are listed:
 * each lock is shown as it was at one instant, all of them together are not. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

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

const char cmd_ls_page[] =
    "Usage: holdfast ls [OPTION]... [GLOB]\n"
    "\n"
    "Lists the locks that are held or waited for. GLOB chooses names: '*' stands for any\n"
    "bytes, also '/', '?' for one, a backslash takes the next one as it is.\n"
    "\n"
    "  --json             an array with one object for each holder and waiter: name, name_hex,\n"
    "                     mode, waiting, position, fence, remaining_ms, age_ms, host, pid,\n"
    "                     purpose\n"
    "  -u, --url URL      where the locks live\n"
    "  --require LIST     refuse a store that does not promise these\n"
    "  -q, --quiet        nothing when there are no locks\n"
    "  -v, --verbose      say more\n"
    "\n"
    "Columns: name, mode, holder as host:pid, purpose, fence, for how long it has been held,\n"
    "what is left of the lease, and how many wait.\n";

static void print_json(const struct listing *listing)
{
    struct json json = { .out = stdout, .rows = true };

    json_open(&json, NULL, '[');
    for (size_t i = 0; i < listing->count; i++) {
        json_open(&json, NULL, '{');
        listing_json(&json, &listing->entries[i]);
        json_close(&json, '}');
    }
    json_close(&json, ']');
}

static void add_row(struct table *table, const struct hf_holding *entry, size_t waiting)
{
    char who[LISTING_WHO_BYTES];
    char fence[24] = "";
    char age[TEXT_AGE_BYTES];
    char remaining[TEXT_AGE_BYTES];
    char waiting_text[24];

    if (entry->fence && !entry->waiting)
        snprintf(fence, sizeof(fence), "%" PRIu64, entry->fence);
    snprintf(waiting_text, sizeof(waiting_text), "%zu", waiting);
    table_add(table,
              (const char *const[]){
                  entry->name, listing_mode(entry), entry->waiting ? "" : listing_who(entry, who),
                  entry->waiting ? "" : entry->purpose, fence,
                  text_age(entry->waiting ? -1 : entry->age_ms, age),
                  text_age(entry->waiting ? -1 : entry->remaining_ms, remaining), waiting_text });
}

/* The rows of one name, whose entries are `count` from `first` on. */
static void add_lock(struct table *table, const struct listing *listing, size_t first, size_t count)
{
    const struct hf_holding *entries = &listing->entries[first];
    size_t holders = 0;

    for (size_t i = 0; i < count; i++)
        holders += entries[i].waiting ? 0 : 1;
    if (!holders)
        add_row(table, &entries[0], count);
    for (size_t i = 0; i < count; i++) {
        if (!entries[i].waiting)
            add_row(table, &entries[i], count - holders);
    }
}

static void print_table(const struct listing *listing)
{
    struct table table = { .columns = 8 };

    table_add(&table, (const char *const[]){ "NAME", "MODE", "HOLDER", "PURPOSE", "FENCE", "AGE",
                                             "REMAINING", "WAITING" });
    for (size_t i = 0; i < listing->count;) {
        size_t count = listing_same_name(listing, i);

        add_lock(&table, listing, i, count);
        i += count;
    }
    table_print(&table);
    table_done(&table);
}

static int list(const struct arguments_common *common, const char *glob, bool as_json)
{
    struct hf_open_options options = HF_OPEN_OPTIONS_INIT;
    struct listing listing = { 0 };
    hf_client *client = NULL;
    int exit_status = arguments_open(common, &options, &client);
    int status;

    if (exit_status)
        return exit_status;

    status = listing_collect(&listing, client, glob);
    if (status < 0)
        exit_status = exit_failed(client, status);
    else if (as_json)
        print_json(&listing);
    else if (listing.count)
        print_table(&listing);
    else if (!common->quiet && isatty(STDOUT_FILENO))
        say(glob ? "no lock of such a name is held or waited for"
                 : "no lock is held or waited for");

    listing_done(&listing);
    hf_close(client);
    return exit_status;
}

int cmd_ls(int argc, char **argv)
{
    static const struct option longs[] = { ARGUMENTS_COMMON_LONG,
                                           { "json", no_argument, NULL, JSON },
                                           { NULL, 0, NULL, 0 } };
    struct arguments arguments = {
        .verb = "ls", .argc = argc, .argv = argv, .shorts = ARGUMENTS_COMMON_SHORT, .longs = longs
    };
    const char *glob = NULL;
    bool as_json = false;
    int option;

    while ((option = arguments_next(&arguments)) != ARGUMENTS_END) {
        if (option == ARGUMENTS_DONE)
            return arguments.exit_status;
        if (option == JSON)
            as_json = true;
        else if (arguments_one_word(&arguments, &glob))
            return EXIT_USAGE;
    }
    return list(&arguments.common, glob, as_json);
}
