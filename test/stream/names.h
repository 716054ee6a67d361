/* names.h: names whose addresses the tests decide; all others are asked of the real resolver.
 *
 *     good.test wrong.test   127.0.0.1
 *     two.test               127.0.0.2, then 127.0.0.1
 *     many.test              127.0.0.1 twenty times
 *     slow.test              127.0.0.1, once names_let_go() was called
 *     broken.test            fails with EAI_SYSTEM and EIO */
#ifndef TEST_STREAM_NAMES_H
#define TEST_STREAM_NAMES_H

#include <stdbool.h>

void names_let_go(void);
/* So many questions about names (not numbers) have been asked. */
unsigned names_asked(void);
/* No thread that asked took signals. */
bool names_asked_quietly(void);

#endif
