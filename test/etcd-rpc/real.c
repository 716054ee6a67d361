/* real.c: does a real etcd understand us, and do we understand it? What we wrote is looked up with
 * etcdctl, and what etcdctl wrote is heard here. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "check.h"
#include "holdfast/holdfast.h"
#include "store.h"

#define LEASE 0x123456789abcdefll

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){ strlen(text), (uint8_t *)(uintptr_t)text };
}

static bool is_text(ProtobufCBinaryData bytes, const char *text)
{
    return bytes.len == strlen(text) && memcmp(bytes.data, text, bytes.len) == 0;
}

/* The number behind `"Name" : ` in what etcdctl wrote with -w fields. */
static int64_t field(const char *text, const char *name)
{
    char wanted[64];
    const char *at;

    (void)snprintf(wanted, sizeof(wanted), "\"%s\" : ", name);
    at = strstr(text, wanted);
    if (!at)
        fail_msg("no %s in: %s", name, text);
    return strtoll(at + strlen(wanted), NULL, 10);
}

static Hf__Etcd__LeaseGrantResponse *grant(struct line *line, int64_t ttl_s)
{
    Hf__Etcd__LeaseGrantRequest request = HF__ETCD__LEASE_GRANT_REQUEST__INIT;

    request.id = LEASE;
    request.ttl = ttl_s;
    return line_call(line, "/etcdserverpb.Lease/LeaseGrant", &request.base,
                     &hf__etcd__lease_grant_response__descriptor);
}

/* If there is no such key: put it under the lease; otherwise get it. */
static Hf__Etcd__TxnResponse *create(struct line *line, const char *key, const char *value,
                                     int64_t lease)
{
    Hf__Etcd__TxnRequest txn = HF__ETCD__TXN_REQUEST__INIT;
    Hf__Etcd__Compare compare = HF__ETCD__COMPARE__INIT;
    Hf__Etcd__RequestOp put_op = HF__ETCD__REQUEST_OP__INIT;
    Hf__Etcd__RequestOp get_op = HF__ETCD__REQUEST_OP__INIT;
    Hf__Etcd__PutRequest put = HF__ETCD__PUT_REQUEST__INIT;
    Hf__Etcd__RangeRequest get = HF__ETCD__RANGE_REQUEST__INIT;

    compare.target = HF__ETCD__COMPARE__COMPARE_TARGET__CREATE;
    compare.key = bytes_of(key);
    compare.target_union_case = HF__ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
    put.key = get.key = compare.key;
    put.value = bytes_of(value);
    put.lease = lease;
    put_op.request_case = HF__ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
    put_op.request_put = &put;
    get_op.request_case = HF__ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
    get_op.request_range = &get;
    txn.compare = (Hf__Etcd__Compare *[]){ &compare };
    txn.success = (Hf__Etcd__RequestOp *[]){ &put_op };
    txn.failure = (Hf__Etcd__RequestOp *[]){ &get_op };
    txn.n_compare = txn.n_success = txn.n_failure = 1;
    return line_call(line, "/etcdserverpb.KV/Txn", &txn.base, &hf__etcd__txn_response__descriptor);
}

static Hf__Etcd__RangeResponse *range(struct line *line, const Hf__Etcd__RangeRequest *request)
{
    return line_call(line, "/etcdserverpb.KV/Range", &request->base,
                     &hf__etcd__range_response__descriptor);
}

static Hf__Etcd__DeleteRangeResponse *delete_key(struct line *line, const char *key)
{
    Hf__Etcd__DeleteRangeRequest request = HF__ETCD__DELETE_RANGE_REQUEST__INIT;

    request.key = bytes_of(key);
    request.prev_kv = true;
    return line_call(line, "/etcdserverpb.KV/DeleteRange", &request.base,
                     &hf__etcd__delete_range_response__descriptor);
}

static void check_grant_and_create(struct line *line, struct store *store)
{
    Hf__Etcd__LeaseGrantResponse *granted = grant(line, 100);
    Hf__Etcd__TxnResponse *txn;
    const char *told;
    int64_t revision;

    CHECK(granted && granted->id == LEASE && granted->ttl == 100);
    CHECK(!grant(line, 100));
    CHECK(line->code == HF__RPC_CODE_FAILED_PRECONDITION && line->fate == HF__RPC_FATE_ANSWERED);
    CHECK(strstr(line->error, "lease already exists"));
    CHECK(strstr(store_ask(store, "lease list"), "123456789abcdef"));

    txn = create(line, "a/1", "mine", LEASE);
    CHECK(txn && txn->succeeded && txn->n_responses == 1 && txn->header);
    CHECK_EQUAL(txn->responses[0]->response_case, HF__ETCD__RESPONSE_OP__RESPONSE_RESPONSE_PUT);
    revision = txn->header->revision;
    told = store_ask(store, "get a/1 -w fields");
    CHECK(strstr(told, "\"Value\" : \"mine\""));
    CHECK(field(told, "CreateRevision") == revision && field(told, "Lease") == LEASE);
    CHECK(field(told, "ClusterID") == (int64_t)txn->header->cluster_id ||
          strstr(told, "ClusterID")); /* above 2^63 it is not a number of ours */

    txn = create(line, "a/1", "another's", LEASE);
    CHECK(txn && !txn->succeeded && txn->n_responses == 1);
    CHECK_EQUAL(txn->responses[0]->response_case, HF__ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE);
    CHECK_EQUAL(txn->responses[0]->response_range->n_kvs, 1);
    CHECK(is_text(txn->responses[0]->response_range->kvs[0]->value, "mine"));
    CHECK(txn->responses[0]->response_range->kvs[0]->create_revision == revision);
    CHECK(txn->responses[0]->response_range->kvs[0]->lease == LEASE);
}

static void check_ranges(struct line *line, struct store *store)
{
    Hf__Etcd__RangeRequest request = HF__ETCD__RANGE_REQUEST__INIT;
    Hf__Etcd__RangeResponse *found;
    int64_t second;

    (void)store_ask(store, "put a/2 second");
    second = field(store_ask(store, "get a/2 -w fields"), "CreateRevision");
    (void)store_ask(store, "put a/0 third");
    request.key = bytes_of("a/");
    request.range_end = bytes_of("a0");
    found = range(line, &request);
    CHECK(found && found->n_kvs == 3 && found->count == 3 && !found->more);
    CHECK(is_text(found->kvs[0]->key, "a/0") && is_text(found->kvs[2]->value, "second"));

    request.sort_target = HF__ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
    request.sort_order = HF__ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND;
    request.max_create_revision = second;
    request.limit = 1;
    request.keys_only = true;
    found = range(line, &request);
    CHECK(found && found->n_kvs == 1 && is_text(found->kvs[0]->key, "a/2"));
    CHECK(found->kvs[0]->value.len == 0 && found->kvs[0]->create_revision == second);

    request.min_create_revision = second + 1;
    request.max_create_revision = 0;
    request.serializable = true;
    found = range(line, &request);
    CHECK(found && found->n_kvs == 1 && is_text(found->kvs[0]->key, "a/0"));

    request.count_only = true;
    found = range(line, &request);
    CHECK(found && found->n_kvs == 0 && found->count == 3);
}

static void check_deletes(struct line *line, struct store *store)
{
    Hf__Etcd__LeaseTimeToLiveRequest ask = HF__ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    Hf__Etcd__LeaseRevokeRequest revoke = HF__ETCD__LEASE_REVOKE_REQUEST__INIT;
    Hf__Etcd__LeaseTimeToLiveResponse *left;
    Hf__Etcd__DeleteRangeResponse *gone;

    ask.id = revoke.id = LEASE;
    ask.keys = true;
    left = line_call(line, "/etcdserverpb.Lease/LeaseTimeToLive", &ask.base,
                     &hf__etcd__lease_time_to_live_response__descriptor);
    CHECK(left && left->ttl > 0 && left->ttl <= 100 && left->grantedttl == 100);
    CHECK(left->n_keys == 1 && is_text(left->keys[0], "a/1"));

    gone = delete_key(line, "a/2");
    CHECK(gone && gone->deleted == 1 && is_text(gone->prev_kvs[0]->value, "second"));
    CHECK_TEXT(store_ask(store, "get a/2"), "");
    gone = delete_key(line, "a/2");
    CHECK(gone && gone->deleted == 0 && gone->n_prev_kvs == 0);

    CHECK(line_call(line, "/etcdserverpb.Lease/LeaseRevoke", &revoke.base,
                    &hf__etcd__lease_revoke_response__descriptor));
    CHECK_TEXT(store_ask(store, "get a/1"), "");
    CHECK(!strstr(store_ask(store, "lease list"), "123456789abcdef"));
    CHECK(!line_call(line, "/etcdserverpb.Lease/LeaseRevoke", &revoke.base,
                     &hf__etcd__lease_revoke_response__descriptor));
    CHECK(line->code == HF__RPC_CODE_NOT_FOUND && strstr(line->error, "lease not found"));
}

TEST(real, what_we_write_etcdctl_reads)
{
    struct store store;
    struct line line;

    store_start(&store, STORE_PLAIN);
    line_open(&line, &store);
    check_grant_and_create(&line, &store);
    check_ranges(&line, &store);
    check_deletes(&line, &store);
    line_close(&line);
    store_stop(&store);
}

TEST(real, the_server_tells_who_it_is)
{
    Hf__Etcd__StatusRequest ask = HF__ETCD__STATUS_REQUEST__INIT;
    Hf__Etcd__MemberListRequest list = HF__ETCD__MEMBER_LIST_REQUEST__INIT;
    Hf__Etcd__MemberListResponse *members;
    Hf__Etcd__StatusResponse *status;
    char wanted[64];
    struct store store;
    struct line line;

    store_start(&store, STORE_PLAIN);
    line_open(&line, &store);
    CHECK(create(&line, "x", "y", 0)); /* from now on it has a leader */
    status = line_call(&line, "/etcdserverpb.Maintenance/Status", &ask.base,
                       &hf__etcd__status_response__descriptor);
    CHECK(status && status->leader == status->header->member_id && status->raftterm > 0);
    (void)snprintf(wanted, sizeof(wanted), "%" PRIx64 ", %s, ", status->header->member_id,
                   status->version);
    CHECK(strstr(store_ask(&store, "endpoint status"), wanted));
    members = line_call(&line, "/etcdserverpb.Cluster/MemberList", &list.base,
                        &hf__etcd__member_list_response__descriptor);
    CHECK(members && members->n_members == 1 && members->members[0]->n_clienturls == 1);
    CHECK(strstr(store_ask(&store, "member list"), members->members[0]->clienturls[0]));
    CHECK(!line_call(&line, "/etcdserverpb.KV/NoSuchThing", &ask.base,
                     &hf__etcd__status_response__descriptor));
    CHECK(line.code == HF__RPC_CODE_UNIMPLEMENTED && line.fate == HF__RPC_FATE_ANSWERED);
    line_close(&line);
    store_stop(&store);
}

TEST(real, a_lease_is_kept_alive_by_a_stream)
{
    Hf__Etcd__LeaseKeepAliveRequest keep = HF__ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;
    Hf__Etcd__LeaseKeepAliveResponse *kept;
    struct hf__rpc_call *stream;
    struct hf__rpc_event event;
    struct store store;
    struct line line;

    store_start(&store, STORE_PLAIN);
    line_open(&line, &store);
    CHECK(grant(&line, 50));
    stream = line_stream(&line, "/etcdserverpb.Lease/LeaseKeepAlive");
    for (int i = 0; i < 3; i++) {
        keep.id = LEASE;
        line_send(&line, stream, &keep.base);
        kept = line_hear(&line, &hf__etcd__lease_keep_alive_response__descriptor);
        CHECK(kept->id == LEASE && kept->ttl == 50 && kept->header);
    }
    keep.id = 99; /* no such lease: that is no error, but no time */
    line_send(&line, stream, &keep.base);
    kept = line_hear(&line, &hf__etcd__lease_keep_alive_response__descriptor);
    CHECK(kept->id == 99 && kept->ttl == 0);
    hf__rpc_finish(line.rpc, stream);
    event = line_next(&line);
    CHECK(event.kind == HF__RPC_ENDED && event.status == HF_OK);
    line_close(&line);
    store_stop(&store);
}

static void watch(struct line *line, struct hf__rpc_call *stream, int64_t id, int64_t from)
{
    Hf__Etcd__WatchCreateRequest create_watch = HF__ETCD__WATCH_CREATE_REQUEST__INIT;
    Hf__Etcd__WatchRequest request = HF__ETCD__WATCH_REQUEST__INIT;

    create_watch.key = bytes_of("w/");
    create_watch.range_end = bytes_of("w0");
    create_watch.start_revision = from;
    create_watch.filters = (Hf__Etcd__WatchCreateRequest__FilterType[]){
        HF__ETCD__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT
    };
    create_watch.n_filters = 1;
    create_watch.prev_kv = create_watch.fragment = create_watch.progress_notify = true;
    create_watch.watch_id = id;
    request.request_union_case = HF__ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create_watch;
    line_send(line, stream, &request.base);
}

TEST(real, a_watch_tells_what_etcdctl_deletes)
{
    Hf__Etcd__WatchProgressRequest progress = HF__ETCD__WATCH_PROGRESS_REQUEST__INIT;
    Hf__Etcd__WatchCancelRequest cancel = HF__ETCD__WATCH_CANCEL_REQUEST__INIT;
    Hf__Etcd__WatchRequest request = HF__ETCD__WATCH_REQUEST__INIT;
    const ProtobufCMessageDescriptor *type = &hf__etcd__watch_response__descriptor;
    Hf__Etcd__WatchResponse *heard;
    struct hf__rpc_call *stream;
    struct store store;
    struct line line;

    store_start(&store, STORE_PLAIN);
    line_open(&line, &store);
    CHECK(create(&line, "w/1", "value", 0));
    stream = line_stream(&line, "/etcdserverpb.Watch/Watch");
    watch(&line, stream, 77, 0);
    heard = line_hear(&line, type);
    CHECK(heard->created && heard->watch_id == 77 && !heard->canceled);
    (void)store_ask(&store, "put w/2 new");
    (void)store_ask(&store, "del w/1");
    heard = line_hear(&line, type);
    CHECK(heard->watch_id == 77 && heard->n_events == 1);
    CHECK_EQUAL(heard->events[0]->type, HF__ETCD__EVENT__EVENT_TYPE__DELETE);
    CHECK(is_text(heard->events[0]->kv->key, "w/1"));
    CHECK(heard->events[0]->kv->mod_revision == heard->header->revision);
    CHECK(is_text(heard->events[0]->prev_kv->value, "value"));

    request.request_union_case = HF__ETCD__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST;
    request.progress_request = &progress;
    line_send(&line, stream, &request.base);
    heard = line_hear(&line, type);
    CHECK(heard->n_events == 0 && heard->header->revision > 0);

    cancel.watch_id = 77;
    request.request_union_case = HF__ETCD__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST;
    request.cancel_request = &cancel;
    line_send(&line, stream, &request.base);
    heard = line_hear(&line, type);
    CHECK(heard->canceled && heard->watch_id == 77);

    (void)store_ask(&store, "compaction 3");
    watch(&line, stream, 78, 1);
    heard = line_hear(&line, type);
    while (!heard->canceled)
        heard = line_hear(&line, type);
    CHECK(heard->watch_id == 78 && heard->compact_revision == 3);
    CHECK_EQUAL(hf__rpc_cancel(line.rpc, stream), HF__RPC_FATE_PERHAPS);
    CHECK(create(&line, "w/3", "still there", 0));
    line_close(&line);
    store_stop(&store);
}

static Hf__Etcd__AuthenticateResponse *authenticate(struct line *line, const char *password)
{
    Hf__Etcd__AuthenticateRequest request;
    char name[] = "root";
    char copy[64];

    hf__etcd__authenticate_request__init(&request);
    (void)snprintf(copy, sizeof(copy), "%s", password);
    request.name = name;
    request.password = copy;
    return line_call(line, "/etcdserverpb.Auth/Authenticate", &request.base,
                     &hf__etcd__authenticate_response__descriptor);
}

TEST(real, a_user_is_let_in_by_a_token)
{
    Hf__Etcd__AuthenticateResponse *answer;
    struct store store;
    struct line line;

    store_start(&store, STORE_PLAIN);
    line_open(&line, &store);
    CHECK(create(&line, "x", "y", 0));
    (void)store_ask(&store, "user add root:secret");
    (void)store_ask(&store, "user grant-role root root");
    (void)store_ask(&store, "auth enable");
    store.user = "root:secret";

    CHECK(!create(&line, "a", "b", 0));
    CHECK(line.code == HF__RPC_CODE_INVALID_ARGUMENT && strstr(line.error, "user name is empty"));
    CHECK(!authenticate(&line, "wrong"));
    CHECK(line.code == HF__RPC_CODE_INVALID_ARGUMENT &&
          strstr(line.error, "authentication failed"));
    answer = authenticate(&line, "secret");
    CHECK(answer && *answer->token);
    CHECK_EQUAL(hf__rpc_set_token(line.rpc, answer->token), HF_OK);
    CHECK(create(&line, "a", "b", 0));
    CHECK_TEXT(store_ask(&store, "get a --print-value-only"), "b\n");
    CHECK_EQUAL(hf__rpc_set_token(line.rpc, "no.such.token"), HF_OK);
    CHECK(!create(&line, "a", "b", 0));
    CHECK(line.code == HF__RPC_CODE_UNAUTHENTICATED && strstr(line.error, "invalid auth token"));
    line_close(&line);
    store_stop(&store);
}

static void check_tls(enum store_tls tls)
{
    struct store store;
    struct line line;

    store_start(&store, tls);
    line_open(&line, &store);
    CHECK(grant(&line, 100));
    CHECK(create(&line, "a", "b", LEASE));
    CHECK_TEXT(store_ask(&store, "get a --print-value-only"), "b\n");
    line_close(&line);
    store_stop(&store);
}

TEST(real, tls_agrees_upon_h2)
{
    check_tls(STORE_TLS);
}

TEST(real, tls_with_a_certificate_of_ours)
{
    check_tls(STORE_TLS_CLIENT);
}

/* A value of 1 MB there and back, through the windows of both. */
TEST(real, long_values_pass)
{
    Hf__Etcd__RangeRequest request = HF__ETCD__RANGE_REQUEST__INIT;
    size_t count = 1000000;
    char *value = malloc(count + 1);
    Hf__Etcd__RangeResponse *found;
    struct store store;
    struct line line;

    CHECK(value != NULL);
    memset(value, 'v', count);
    value[count] = '\0';
    store_start(&store, STORE_PLAIN);
    line_open(&line, &store);
    CHECK(create(&line, "big/1", value, 0));
    CHECK(create(&line, "big/2", value, 0));
    request.key = bytes_of("big/");
    request.range_end = bytes_of("big0");
    found = range(&line, &request);
    CHECK(found && found->n_kvs == 2 && is_text(found->kvs[1]->value, value));
    line_close(&line);
    store_stop(&store);
    free(value);
}

/* A thousand and more at once: all are answered. */
TEST(real, many_calls_at_once_are_all_answered)
{
    Hf__Etcd__PutRequest put = HF__ETCD__PUT_REQUEST__INIT;
    struct store store;
    struct line line;
    char key[32];

    store_start(&store, STORE_PLAIN);
    line_open(&line, &store);
    for (int i = 0; i < 1500; i++) {
        (void)snprintf(key, sizeof(key), "many/%d", i);
        put.key = bytes_of(key);
        line_start(&line, "/etcdserverpb.KV/Put", &put.base, HF__NEVER);
    }
    for (int i = 0; i < 1500; i++)
        CHECK_EQUAL(line_next(&line).kind, HF__RPC_ANSWER);
    CHECK(field(store_ask(&store, "get many/ --prefix --limit=1 -w fields"), "Count") == 1500);
    line_close(&line);
    store_stop(&store);
}

/* etcd bears no pings while nothing is under way. */
TEST(real, who_pings_too_much_is_sent_away)
{
    struct hf__rpc_event event;
    struct store store;
    struct line line;
    int pings = 0;

    store_start(&store, STORE_PLAIN);
    line_open(&line, &store);
    CHECK(create(&line, "x", "y", 0));
    do {
        CHECK(hf__rpc_ping(line.rpc, 5) && ++pings < 100);
        event = line_next(&line);
    } while (event.kind == HF__RPC_PONG && event.tag == 5);
    CHECK_EQUAL(event.kind, HF__RPC_GOAWAY);
    CHECK(strstr(event.text, "too_many_pings"));
    line_close(&line);
    store_stop(&store);
}

TEST(real, a_server_that_stops_and_dies_leaves_nobody_waiting)
{
    Hf__Etcd__PutRequest put = HF__ETCD__PUT_REQUEST__INIT;
    struct hf__rpc_event event;
    struct store store;
    struct line line;

    store_start(&store, STORE_PLAIN);
    line_open(&line, &store);
    CHECK(create(&line, "x", "y", 0));
    (void)line_stream(&line, "/etcdserverpb.Watch/Watch");
    CHECK_EQUAL(kill(store.process, SIGSTOP), 0);
    put.key = bytes_of("k");
    line_start(&line, "/etcdserverpb.KV/Put", &put.base, hf__clock_now_ns() + 50000000);
    event = line_next(&line);
    CHECK(event.kind == HF__RPC_FAILED && event.code == HF__RPC_CODE_DEADLINE_EXCEEDED);
    CHECK_EQUAL(event.fate, HF__RPC_FATE_PERHAPS);
    CHECK_EQUAL(kill(store.process, SIGCONT), 0);
    CHECK(create(&line, "z", "goes on", 0));

    CHECK_EQUAL(kill(store.process, SIGSTOP), 0);
    line_start(&line, "/etcdserverpb.KV/Put", &put.base, HF__NEVER);
    CHECK_EQUAL(kill(store.process, SIGKILL), 0);
    event = line_next(&line);
    CHECK(event.kind == HF__RPC_ENDED && event.status == HF_EUNREACHABLE);
    event = line_next(&line);
    CHECK(event.kind == HF__RPC_FAILED && event.status == HF_EUNREACHABLE);
    line_close(&line);
    store_stop(&store);
}
