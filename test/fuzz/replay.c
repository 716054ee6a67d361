/* replay.c: does a fuzz target still stand all that was ever kept for it?
 *
 * The arguments are folders of inputs. A law that does not hold ends the program, after the name of
 * the input was printed. An empty folder is a failure: nothing was tried. */
#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"

#define INPUT_BYTES_MAX (1 << 20)

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(INPUT_BYTES_MAX);
    uint8_t *exact;
    size_t count;

    (void)fprintf(stderr, "%s\n", path);
    assert(file && bytes);
    count = fread(bytes, 1, INPUT_BYTES_MAX, file);
    assert(!ferror(file));
    (void)fclose(file);

    exact = realloc(bytes, count > 0 ? count : 1); /* the sanitizer watches its end */
    assert(exact);
    (void)LLVMFuzzerTestOneInput(exact, count);
    free(exact);
}

static size_t replay_folder(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    size_t count = 0;

    assert(folder);
    while ((entry = readdir(folder)) != NULL) {
        char full[4096];

        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(full, sizeof(full), "%s/%s", path, entry->d_name);
        replay_file(full);
        count++;
    }
    (void)closedir(folder);
    return count;
}

int main(int argument_count, char **arguments)
{
    size_t count = 0;

    for (int i = 1; i < argument_count; i++)
        count += replay_folder(arguments[i]);
    if (count == 0) {
        (void)fprintf(stderr, "usage: %s FOLDER-WITH-INPUTS...\n", arguments[0]);
        return EXIT_FAILURE;
    }
    (void)printf("%zu passed, 0 failed\n", count);
    return EXIT_SUCCESS;
}
