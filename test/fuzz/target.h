/* target.h: what a fuzzer or a replay calls, with bytes that may be anything. */
#ifndef TEST_FUZZ_TARGET_H
#define TEST_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

/* Ends the program where a law does not hold; always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#endif
