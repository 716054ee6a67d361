/* mysql_result.c (fuzz): whatever a server answers, it is read to its end as one result after the
 * other, or the line is given up; and nothing is read that is not there.
 *
 * The first byte says what was asked; the others are packets, each with its head. */
#include <assert.h>
#include <string.h>

#include "engine/mysql/mysql.h"
#include "target.h"

#define COLUMNS_MAX 32

static void check_row(struct hf__result *result, const uint8_t *front, size_t count)
{
    assert(result->columns > 0 && result->columns <= COLUMNS_MAX && !result->is_last);
    for (uint32_t i = 0; i < result->columns; i++) {
        size_t bytes;
        const uint8_t *text = hf__packet_string(&result->row, &bytes);

        assert(!text || (text >= front && text + bytes <= front + count));
    }
}

static void check(struct hf__cable *cable, struct hf__result *result)
{
    switch (result->kind) {
    case HF__RESULT_NONE:
        assert(cable->phase == HF__CABLE_UP || cable->status == HF_EPROTOCOL);
        break;
    case HF__RESULT_OK:
        assert(cable->phase == HF__CABLE_UP);
        assert(!result->is_last || cable->sequence == HF__MYSQL_ANSWER);
        break;
    case HF__RESULT_ERROR:
        assert(result->is_last && result->code <= UINT16_MAX);
        assert(memchr(result->text, '\0', sizeof(result->text)));
        break;
    case HF__RESULT_ROW:
        check_row(result, hf__buffer_front(&cable->input), hf__buffer_count(&cable->input));
        break;
    case HF__RESULT_PREPARED:
        assert(result->is_last);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct hf__env env;
    struct hf__cable cable = { .phase = HF__CABLE_UP, .sequence = HF__MYSQL_ANSWER };
    struct hf__result result;
    size_t results = 0;

    if (count == 0)
        return 0;
    assert(hf__env_init(&env) == HF_OK);
    cable.env = &env;
    hf__buffer_init(&cable.input, &env, 1 << 20);
    assert(count == 1 || hf__buffer_append(&cable.input, bytes + 1, count - 1) == HF_OK);
    do {
        hf__result_next(&cable, (enum hf__result_form)(bytes[0] % 3), &result);
        check(&cable, &result);
        assert(++results <= count);
    } while (result.kind != HF__RESULT_NONE);
    hf__buffer_done(&cable.input);
    hf__env_done(&env);
    return 0;
}
