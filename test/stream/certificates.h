/* certificates.h: certificates of every kind, made once, in a directory that goes with the program.
 *
 *     authority     signs the others
 *     stranger      another authority, which nobody trusts
 *     good          for good.test and 127.0.0.1
 *     named         for good.test only
 *     expired       for good.test, until yesterday
 *     early         for good.test, from tomorrow on
 *     alone         for good.test, signed by itself
 *     strange       for good.test, signed by the stranger
 *     client        for a client
 *     sealed        for a client; its key is encrypted */
#ifndef TEST_STREAM_CERTIFICATES_H
#define TEST_STREAM_CERTIFICATES_H

#define CERTIFICATES_PATH_BYTES 512

/* kind: "pem" or "key". Makes them all when it is first called; from any thread. */
void certificates_path(const char *name, const char *kind, char out_path[CERTIFICATES_PATH_BYTES]);

/* A path in the same directory. */
void certificates_place(const char *name, char out_path[CERTIFICATES_PATH_BYTES]);

#endif
