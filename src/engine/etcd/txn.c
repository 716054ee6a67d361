/* txn.c: how is a transaction written down?
 *
 * Conditions first, then what is done if they hold; after `otherwise` was set, what is done if not.
 * Keys and values are borrowed until it is sent. */
#include <assert.h>

#include "engine/etcd/etcd.h"

void hf__txn_init(struct hf__txn *txn)
{
    /* Its parts are made as they are added: all of them are over four kilobytes. */
    txn->request = (Hf__Etcd__TxnRequest)HF__ETCD__TXN_REQUEST__INIT;
    txn->operation_count = 0;
    txn->otherwise = false;
    txn->request.compare = txn->compare_list;
    txn->request.success = txn->success_list;
    txn->request.failure = txn->failure_list;
}

static Hf__Etcd__Compare *compare(struct hf__txn *txn, ProtobufCBinaryData key,
                                  Hf__Etcd__Compare__CompareTarget target)
{
    size_t index = txn->request.n_compare++;
    Hf__Etcd__Compare *condition = &txn->compares[index];

    assert(index < HF__TXN_COMPARES);
    *condition = (Hf__Etcd__Compare)HF__ETCD__COMPARE__INIT;
    condition->result = HF__ETCD__COMPARE__COMPARE_RESULT__EQUAL;
    condition->target = target;
    condition->key = key;
    txn->compare_list[index] = condition;
    return condition;
}

void hf__txn_if_revision(struct hf__txn *txn, ProtobufCBinaryData key, int64_t revision)
{
    Hf__Etcd__Compare *condition = compare(txn, key, HF__ETCD__COMPARE__COMPARE_TARGET__CREATE);

    condition->target_union_case = HF__ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
    condition->create_revision = revision;
}

void hf__txn_if_version(struct hf__txn *txn, ProtobufCBinaryData key, int64_t version)
{
    Hf__Etcd__Compare *condition = compare(txn, key, HF__ETCD__COMPARE__COMPARE_TARGET__VERSION);

    condition->target_union_case = HF__ETCD__COMPARE__TARGET_UNION_VERSION;
    condition->version = version;
}

/* A condition on a range must hold for each key in it, and for none at all if there is none. */
void hf__txn_if_none(struct hf__txn *txn, ProtobufCBinaryData from, ProtobufCBinaryData to)
{
    hf__txn_if_version(txn, from, 0);
    txn->compares[txn->request.n_compare - 1].range_end = to;
}

void hf__txn_if_lease(struct hf__txn *txn, ProtobufCBinaryData key, int64_t lease)
{
    Hf__Etcd__Compare *condition = compare(txn, key, HF__ETCD__COMPARE__COMPARE_TARGET__LEASE);

    condition->target_union_case = HF__ETCD__COMPARE__TARGET_UNION_LEASE;
    condition->lease = lease;
}

/* A bearer's text begins with a letter, and a mark comes before all letters. */
void hf__txn_if_unmarked(struct hf__txn *txn, ProtobufCBinaryData key)
{
    Hf__Etcd__Compare *condition = compare(txn, key, HF__ETCD__COMPARE__COMPARE_TARGET__VALUE);

    condition->result = HF__ETCD__COMPARE__COMPARE_RESULT__GREATER;
    condition->target_union_case = HF__ETCD__COMPARE__TARGET_UNION_VALUE;
    condition->value = hf__etcd_bytes("A", 1);
}

void hf__txn_do_anyway(struct hf__txn *txn)
{
    assert(txn->operation_count > 0 && !txn->otherwise);
    txn->failure_list[txn->request.n_failure++] =
        &txn->operations[txn->operation_count - 1].operation;
}

static struct hf__txn_operation *operation(struct hf__txn *txn)
{
    struct hf__txn_operation *part = &txn->operations[txn->operation_count++];

    assert(txn->operation_count <= HF__TXN_OPERATIONS);
    part->operation = (Hf__Etcd__RequestOp)HF__ETCD__REQUEST_OP__INIT;
    if (txn->otherwise)
        txn->failure_list[txn->request.n_failure++] = &part->operation;
    else
        txn->success_list[txn->request.n_success++] = &part->operation;
    return part;
}

Hf__Etcd__RangeRequest *hf__txn_range(struct hf__txn *txn, ProtobufCBinaryData key)
{
    struct hf__txn_operation *part = operation(txn);

    part->range = (Hf__Etcd__RangeRequest)HF__ETCD__RANGE_REQUEST__INIT;
    part->range.key = key;
    part->operation.request_case = HF__ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
    part->operation.request_range = &part->range;
    return &part->range;
}

Hf__Etcd__PutRequest *hf__txn_put(struct hf__txn *txn, ProtobufCBinaryData key,
                                  ProtobufCBinaryData value, int64_t lease)
{
    struct hf__txn_operation *part = operation(txn);

    part->put = (Hf__Etcd__PutRequest)HF__ETCD__PUT_REQUEST__INIT;
    part->put.key = key;
    part->put.value = value;
    part->put.lease = lease;
    part->operation.request_case = HF__ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
    part->operation.request_put = &part->put;
    return &part->put;
}

void hf__txn_delete(struct hf__txn *txn, ProtobufCBinaryData key, bool tells_past)
{
    struct hf__txn_operation *part = operation(txn);

    part->delete_range = (Hf__Etcd__DeleteRangeRequest)HF__ETCD__DELETE_RANGE_REQUEST__INIT;
    part->delete_range.key = key;
    part->delete_range.prev_kv = tells_past;
    part->operation.request_case = HF__ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    part->operation.request_delete_range = &part->delete_range;
}

const Hf__Etcd__RangeResponse *hf__txn_ranged(const Hf__Etcd__TxnResponse *response, size_t index)
{
    const Hf__Etcd__ResponseOp *part =
        index < response->n_responses ? response->responses[index] : NULL;

    return part && part->response_case == HF__ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE
               ? part->response_range
               : NULL;
}
