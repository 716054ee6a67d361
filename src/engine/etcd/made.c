/* made.c: the messages of etcd, as protoc-c wrote them from proto/etcd.proto.
 *
 * proto/ is a system's folder to the compiler: what is made is not judged by our warnings. */
#include <etcd.pb-c.c> /* NOLINT(bugprone-suspicious-include) */
