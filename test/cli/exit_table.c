/* exit_table.c: does every answer of the library end the command with the status of the manual?
 *
 * The table of the manual, once more and by hand. The library's texts are not looked at, so that
 * the library need not be linked, however it was built. */
#include <stdio.h>

#include <holdfast/holdfast.h>

#include "exit.h"

HF_API const char *hf_client_error(const hf_client *client)
{
    (void)client;
    return "";
}

HF_API const char *hf_strstatus(int status)
{
    (void)status;
    return "";
}

static const struct {
    int status;
    int exit_status;
} table[] = {
    { HF_OK, 0 },       { HF_EBUSY, 75 },        { HF_ETIMEDOUT, 75 },    { HF_ELIMIT, 75 },
    { HF_ELOST, 79 },   { HF_EUNREACHABLE, 69 }, { HF_EUNKNOWN, 69 },     { HF_EINVAL, 64 },
    { HF_ENAME, 65 },   { HF_ECANCELLED, 70 },   { HF_EDEADLOCK, 70 },    { HF_EFORKED, 70 },
    { HF_ENOMEM, 71 },  { HF_ESYSTEM, 71 },      { HF_EPROTOCOL, 76 },    { HF_EINTEGRITY, 76 },
    { HF_EDENIED, 77 }, { HF_EURL, 78 },         { HF_EUNSUPPORTED, 78 }, { HF_EPROMISE, 78 },
    { HF_PENDING, 70 }, { -1000, 70 },
};

int main(void)
{
    int wrong = 0;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        int exit_status = exit_of(table[i].status);

        if (exit_status == table[i].exit_status)
            continue;
        printf("status %d: %d, not %d\n", table[i].status, exit_status, table[i].exit_status);
        wrong = 1;
    }
    return wrong;
}
