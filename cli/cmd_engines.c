/* cmd_engines.c: what can this build do, and what does each recipe promise?
 *
 * One row for each recipe, from the library itself. With --schema, the SQL that an engine needs; an
 * engine that needs none prints nothing and says so. Promises are those at best: a store that is
 * configured for less keeps less, and --require makes sure. */
#include <stdio.h>
#include <string.h>

#include <holdfast/holdfast.h>

#include "arguments.h"
#include "exit.h"
#include "json.h"
#include "parse.h"
#include "say.h"
#include "table.h"
#include "verbs.h"

#define PROMISES_BYTES 128
#define URL_BYTES_MAX  512

enum { JSON = ARGUMENTS_OWN, SCHEMA };

const char cmd_engines_page[] =
    "Usage: holdfast engines [--json] [--schema ENGINE]\n"
    "\n"
    "Lists the engines and recipes of this build, with what they promise at best and what they\n"
    "do not ('*': the engine's default, 'legacy': for fleets that use it already).\n"
    "\n"
    "  --json             an array of objects: engine, recipe, default, legacy, urls, promises,\n"
    "                     summary, caveat\n"
    "  --schema ENGINE    the SQL that the engine's recipes need\n";

static void promises_text(uint32_t promises, char out_text[PROMISES_BYTES])
{
    size_t used = 0;

    out_text[0] = '\0';
    for (size_t bit = 0; bit < PARSE_PROMISE_COUNT; bit++) {
        if (promises & (1u << bit))
            used += (size_t)snprintf(out_text + used, PROMISES_BYTES - used, "%s%s",
                                     used ? " " : "", parse_promise_name(bit));
    }
}

static int print_table(void)
{
    struct hf_recipe_info info = { .struct_size = sizeof(info) };
    struct table table = { .columns = 4 };

    table_add(&table, (const char *const[]){ "ENGINE", "RECIPE", "PROMISES", "URL" });
    for (size_t i = 0; hf_recipe_info(i, &info) == 1; i++) {
        char promises[PROMISES_BYTES];
        char recipe[64];

        promises_text(info.promises, promises);
        snprintf(recipe, sizeof(recipe), "%s%s%s", info.recipe, info.is_default ? " *" : "",
                 info.is_legacy ? " (legacy)" : "");
        table_add(&table, (const char *const[]){ info.engine, recipe, promises, info.url_forms });
    }
    table_print(&table);
    table_done(&table);

    for (size_t i = 0; hf_recipe_info(i, &info) == 1; i++) {
        printf("\n%s %s: %s\n", info.engine, info.recipe, info.summary);
        if (*info.caveat)
            printf("  But: %s\n", info.caveat);
    }
    return EXIT_FINE;
}

static void print_urls(struct json *json, const char *forms)
{
    json_open(json, "urls", '[');
    while (*forms) {
        size_t length = strcspn(forms, " ");
        char url[URL_BYTES_MAX];

        snprintf(url, sizeof(url), "%.*s", (int)length, forms);
        if (length)
            json_string(json, NULL, url);
        forms += length + (forms[length] == ' ' ? 1 : 0);
    }
    json_close(json, ']');
}

static int print_json(void)
{
    struct hf_recipe_info info = { .struct_size = sizeof(info) };
    struct json json = { .out = stdout, .rows = true };

    json_open(&json, NULL, '[');
    for (size_t i = 0; hf_recipe_info(i, &info) == 1; i++) {
        json_open(&json, NULL, '{');
        json_string(&json, "engine", info.engine);
        json_string(&json, "recipe", info.recipe);
        json_bool(&json, "default", info.is_default);
        json_bool(&json, "legacy", info.is_legacy);
        print_urls(&json, info.url_forms);
        json_open(&json, "promises", '[');
        for (size_t bit = 0; bit < PARSE_PROMISE_COUNT; bit++) {
            if (info.promises & (1u << bit))
                json_string(&json, NULL, parse_promise_name(bit));
        }
        json_close(&json, ']');
        json_string(&json, "summary", info.summary);
        json_string(&json, "caveat", info.caveat);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    return EXIT_FINE;
}

static int print_schema(const struct arguments *arguments, const char *engine)
{
    struct hf_recipe_info info = { .struct_size = sizeof(info) };
    bool known = false;
    bool needed = false;

    for (size_t i = 0; hf_recipe_info(i, &info) == 1; i++) {
        const char *schema;

        if (strcmp(info.engine, engine) != 0)
            continue;
        known = true;
        schema = hf_recipe_schema(info.engine, info.recipe);
        if (!schema || !*schema)
            continue;
        needed = true;
        printf("-- %s, recipe %s\n%s\n", info.engine, info.recipe, schema);
    }
    if (!known)
        return arguments_wrong(arguments,
                               "option '--schema': there is no engine '%s' in this build "
                               "('holdfast engines' lists them)",
                               engine);
    if (!needed && !arguments->common.quiet)
        say("the engine '%s' needs no schema", engine);
    return EXIT_FINE;
}

int cmd_engines(int argc, char **argv)
{
    static const struct option longs[] = { ARGUMENTS_COMMON_LONG,
                                           { "json", no_argument, NULL, JSON },
                                           { "schema", required_argument, NULL, SCHEMA },
                                           { NULL, 0, NULL, 0 } };
    struct arguments arguments = { .verb = "engines",
                                   .argc = argc,
                                   .argv = argv,
                                   .shorts = ARGUMENTS_COMMON_SHORT,
                                   .longs = longs };
    const char *engine = NULL;
    bool as_json = false;
    int option;

    while ((option = arguments_next(&arguments)) != ARGUMENTS_END) {
        if (option == ARGUMENTS_DONE)
            return arguments.exit_status;
        if (option == JSON)
            as_json = true;
        else if (option == SCHEMA)
            engine = optarg;
        else
            return arguments_wrong(&arguments, "'%s' is too much", arguments.word);
    }
    if (engine)
        return print_schema(&arguments, engine);
    return as_json ? print_json() : print_table();
}
