/* error.h: how a failure is told: a status that says what to do, and a text that says why. */
#ifndef HF_BASE_ERROR_H
#define HF_BASE_ERROR_H

#define HF__ERROR_BYTES 256

/* Writes the text into the object that failed and returns the status, so that a failure can be
 * reported and returned on one line. A text that does not fit is cut. `error` may itself be an
 * argument of the format: that is how a text is prefixed as it climbs. */
int hf__error_set(char error[HF__ERROR_BYTES], int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "HF_EBUSY" and "held by others": from the one list of statuses. Unknown: "HF_?" and "unknown
 * status". */
const char *hf__error_name(int status);
const char *hf__error_text(int status);

#endif
