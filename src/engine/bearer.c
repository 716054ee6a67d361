/* bearer.c: how does a claim tell who stands behind it?
 *
 * What can go wrong: a text of somebody else's: nothing of it is believed, and whoever wrote it
 * excludes everybody. What is shown to people is made fit to be shown. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/bearer.h"

static void make_plain(char *text)
{
    for (; *text; text++) {
        if (*text <= ' ' || *text > '~')
            *text = '_';
    }
}

void hf__bearer_whence(char out_whence[HF__WHENCE_BYTES])
{
    char host[HF__HOST_BYTES] = "";

    if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
        hf__text_copy(host, sizeof(host), "unknown");
    make_plain(host);
    (void)snprintf(out_whence, HF__WHENCE_BYTES, "%ld %s", (long)getpid(), host);
}

static char *add_word(char *end, const char *word, size_t bytes_max)
{
    size_t bytes = strnlen(word, bytes_max);

    *end++ = ' ';
    memcpy(end, word, bytes);
    return end + bytes;
}

void hf__bearer_write(const struct hf__request *request, const char *whence, const char *purpose,
                      char out_text[HF__BEARER_BYTES])
{
    char *end = out_text;

    if (request->purpose && *request->purpose)
        purpose = request->purpose;
    *end++ = request->mode == HF_SHARED ? 'r' : 'w';
    *end++ = ' ';
    end += hf__text_from_u64(request->grace_ns / HF__NS_PER_MS, end);
    end = add_word(end, whence, HF__WHENCE_BYTES - 1);
    end = add_word(end, purpose, HF__PURPOSE_BYTES - 1);
    *end = '\0';
}

struct words {
    const char *text;
    size_t left;
};

static bool take(struct words *words, char *out_word, size_t word_bytes)
{
    const char *end = memchr(words->text, ' ', words->left);
    size_t count = end ? (size_t)(end - words->text) : words->left;

    if (count == 0 || count >= word_bytes)
        return false;
    memcpy(out_word, words->text, count);
    out_word[count] = '\0';
    count += end != NULL;
    words->text += count;
    words->left -= count;
    return true;
}

static bool take_number(struct words *words, uint64_t most, uint64_t *out_number)
{
    char word[32];

    return take(words, word, sizeof(word)) && hf__text_to_u64(word, strlen(word), out_number) &&
           *out_number <= most;
}

void hf__bearer_read(const char *text, size_t text_bytes, struct hf__bearer *out_bearer)
{
    const char *line = text_bytes > 0 ? memchr(text, '\n', text_bytes) : NULL;
    struct words words = { text, line ? (size_t)(line - text) : text_bytes };
    bool broken = words.left > 0 && *words.text == '!';
    char mode[2];
    uint64_t grace_ms;
    uint64_t pid;

    *out_bearer = (struct hf__bearer){ .mode = HF_EXCLUSIVE };
    words.text += broken;
    words.left -= broken;
    if (words.left == 0 || !take(&words, mode, sizeof(mode)) || !strchr("rw", *mode) ||
        !take_number(&words, HF_LEASE_MS_MAX, &grace_ms) || !take_number(&words, INT32_MAX, &pid) ||
        words.left == 0 || !take(&words, out_bearer->holder.host, sizeof(out_bearer->holder.host)))
        return;
    make_plain(out_bearer->holder.host);
    if (words.left > HF__PURPOSE_BYTES - 1)
        words.left = HF__PURPOSE_BYTES - 1;
    memcpy(out_bearer->holder.purpose, words.text, words.left);
    out_bearer->holder.pid = (int64_t)pid;
    out_bearer->mode = *mode == 'r' ? HF_SHARED : HF_EXCLUSIVE;
    out_bearer->grace_ms = grace_ms;
    out_bearer->is_known = true;
    out_bearer->is_broken = broken;
}
