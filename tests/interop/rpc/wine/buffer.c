#include <stdlib.h>
#include <string.h>
#include "buffer.h"

/* Pointers to scalars: a NULL pointer where the command does not name the field. */

static void set_byte(const words *from, const char *key, unsigned char **field)
{
    if (text_of(from, key)) { *field = calloc(1, 8); **field = number_of(from, key, 0); }
}

static void set_word(const words *from, const char *key, unsigned short **field)
{
    if (text_of(from, key)) { *field = calloc(1, 8); **field = number_of(from, key, 0); }
}

static void set_number(const words *from, const char *key, DWORD **field)
{
    if (text_of(from, key)) { *field = calloc(1, 8); **field = number_of(from, key, 0); }
}

/* Pointers to pointers */

static void *boxed(void *value)
{
    void **box = calloc(1, sizeof(void *));
    *box = value;
    return box;
}

static unsigned char **set_bytes(const words *from, const char *key, DWORD *length)
{
    const char *text = text_of(from, key);
    return text ? boxed(bytes_of(text, length)) : NULL;
}

static void *set_struct(const words *from, const char *key)
{
    const char *text = text_of(from, key);
    unsigned char *data;
    DWORD length;
    if (!text) return NULL;
    data = calloc(1, 32);
    memcpy(data, bytes_of(text, &length), 20);
    return data;
}

static void set_common(const words *from, CACTransferBufferV2 *buffer)
{
    CACTransferBufferV1 *old = &buffer->old;
    void *found;
    old->uTransferType = number_of(from, "type", old->uTransferType);
    set_word(from, "class", &old->pClass);
    set_byte(from, "priority", &old->pPriority);
    set_byte(from, "delivery", &old->pDelivery);
    set_byte(from, "acknowledge", &old->pAcknowledge);
    set_byte(from, "auditing", &old->pAuditing);
    set_number(from, "application_tag", &old->pApplicationTag);
    set_byte(from, "trace", &old->pTrace);
    set_number(from, "sender_id_type", &old->pulSenderIDType);
    set_number(from, "priv_level", &old->pulPrivLevel);
    set_number(from, "hash_alg", &old->pulHashAlg);
    set_number(from, "encrypt_alg", &old->pulEncryptAlg);
    set_number(from, "prov_type", &old->pulProvType);
    set_number(from, "prov_name_prop", &old->pulAuthProvNameLenProp);
    set_number(from, "body_type", &old->pulBodyType);
    set_number(from, "body_size", &old->pBodySize);
    set_number(from, "sent_time", &old->pSentTime);
    set_number(from, "arrived_time", &old->pArrivedTime);
    set_byte(from, "authenticated", &old->pAuthenticated);
    old->fDefaultProvider = number_of(from, "default_provider", 0);
    old->bEncrypted = number_of(from, "encrypted", 0);
    old->ulAuthLevel = number_of(from, "auth_level", 0);
    old->ulAbsoluteTimeToQueue = number_of(from, "time_to_queue", 0);
    old->ulRelativeTimeToLive = number_of(from, "time_to_live", 0);
    old->pUow = set_struct(from, "uow");
    if ((found = set_struct(from, "connector_type"))) old->ppConnectorType = boxed(found);
    if ((found = set_struct(from, "correlation"))) old->ppCorrelationID = boxed(found);
    if ((found = set_struct(from, "message_id"))) old->ppMessageID = boxed(found);
}

CACTransferBufferV2 *send_buffer(const words *from)
{
    CACTransferBufferV2 *buffer = calloc(1, sizeof(*buffer));
    CACTransferBufferV1 *old = &buffer->old;
    const char *text;
    DWORD length = 0;
    set_common(from, buffer);
    if ((text = text_of(from, "admin"))) old->arm.Send.pAdminQueueFormat = format_of(text);
    if ((text = text_of(from, "response"))) old->arm.Send.pResponseQueueFormat = format_of(text);
    old->ppBody = set_bytes(from, "body", &length);
    old->ulBodyBufferSizeInBytes = length;
    old->ulAllocBodyBufferInBytes = number_of(from, "allocated", length);
    if (old->ppBody) *old->ppBody = realloc(*old->ppBody, old->ulAllocBodyBufferInBytes + 1);
    if ((text = text_of(from, "label")))
    {
        WCHAR *label = wide_of(text);
        DWORD count = 0;
        while (label[count]) count++;
        old->ppTitle = boxed(label);
        old->ulTitleBufferSizeInWCHARs = number_of(from, "label_size", count + 1);
    }
    old->ppMsgExtension = set_bytes(from, "extension", &old->ulMsgExtensionBufferInBytes);
    old->ppSenderCert = set_bytes(from, "certificate", &old->ulSenderCertLen);
    old->ppSymmKeys = set_bytes(from, "symmetric_key", &old->ulSymmKeysSize);
    old->ppSignature = set_bytes(from, "signature", &old->ulSignatureSize);
    length = 0;
    old->ppSenderID = set_bytes(from, "sender_id", &length);
    old->uSenderIDLen = length;
    if ((text = text_of(from, "provider")))
    {
        WCHAR *name = wide_of(text);
        while (name[old->ulProvNameLen]) old->ulProvNameLen++;
        old->ulProvNameLen++;
        old->ppwcsProvName = boxed(name);
    }
    return buffer;
}

/* `key=SIZE` gives a buffer of that size; without it the pointer is NULL. */
static void *room(const words *from, const char *key, DWORD *size, DWORD **length, size_t unit)
{
    if (!text_of(from, key)) return NULL;
    *size = number_of(from, key, 0);
    if (length) *length = calloc(1, sizeof(DWORD));
    if (length) **length = *size;
    return boxed(calloc(*size + 1, unit));
}

CACTransferBufferV2 *receive_buffer(const words *from)
{
    CACTransferBufferV2 *buffer = calloc(1, sizeof(*buffer));
    CACTransferBufferV1 *old = &buffer->old;
    RECEIVE_ARM *arm = &old->arm.Receive;
    DWORD length = 0;
    int whole = !text_of(from, "bare");
    old->uTransferType = 1;
    set_common(from, buffer);
    arm->RequestTimeout = number_of(from, "timeout", 0);
    arm->Action = number_of(from, "action", 0);
    arm->Asynchronous = number_of(from, "asynchronous", 0);
    arm->Cursor = number_of(from, "cursor", 0);
    arm->ppResponseFormatName = room(from, "response", &arm->ulResponseFormatNameLen, &arm->pulResponseFormatNameLenProp, 2);
    arm->ppAdminFormatName = room(from, "admin", &arm->ulAdminFormatNameLen, &arm->pulAdminFormatNameLenProp, 2);
    arm->ppDestFormatName = room(from, "destination", &arm->ulDestFormatNameLen, &arm->pulDestFormatNameLenProp, 2);
    arm->ppOrderingFormatName = room(from, "ordering", &arm->ulOrderingFormatNameLen, &arm->pulOrderingFormatNameLenProp, 2);
    old->ppBody = room(from, "body", &old->ulAllocBodyBufferInBytes, NULL, 1);
    old->ulBodyBufferSizeInBytes = old->ulAllocBodyBufferInBytes;
    old->ppTitle = room(from, "label", &old->ulTitleBufferSizeInWCHARs, &old->pulTitleBufferSizeInWCHARs, 2);
    old->ppMsgExtension = room(from, "extension", &old->ulMsgExtensionBufferInBytes, &old->pMsgExtensionSize, 1);
    old->ppSenderID = room(from, "sender_id", &length, &old->pulSenderIDLenProp, 1);
    old->uSenderIDLen = length;
    old->ppSenderCert = room(from, "certificate", &old->ulSenderCertLen, &old->pulSenderCertLenProp, 1);
    old->ppwcsProvName = room(from, "provider", &old->ulProvNameLen, &old->pulAuthProvNameLenProp, 2);
    old->ppSymmKeys = room(from, "symmetric_key", &old->ulSymmKeysSize, &old->pulSymmKeysSizeProp, 1);
    old->ppSignature = room(from, "signature", &old->ulSignatureSize, &old->pulSignatureSizeProp, 1);
    if (!whole) return buffer;
    old->pBodySize = calloc(1, 8);
    old->pClass = calloc(1, 8);
    old->ppMessageID = boxed(calloc(1, 32));
    old->ppCorrelationID = boxed(calloc(1, 32));
    old->pSentTime = calloc(1, 8);
    old->pArrivedTime = calloc(1, 8);
    old->pPriority = calloc(1, 8);
    old->pDelivery = calloc(1, 8);
    old->pAcknowledge = calloc(1, 8);
    old->pAuditing = calloc(1, 8);
    old->pApplicationTag = calloc(1, 8);
    old->pulRelativeTimeToQueue = calloc(1, 8);
    old->pulRelativeTimeToLive = calloc(1, 8);
    old->pTrace = calloc(1, 8);
    old->pulSenderIDType = calloc(1, 8);
    old->pulPrivLevel = calloc(1, 8);
    old->pAuthenticated = calloc(1, 8);
    old->pulHashAlg = calloc(1, 8);
    old->pulEncryptAlg = calloc(1, 8);
    old->pulProvType = calloc(1, 8);
    old->ppSrcQMID = boxed(calloc(1, 32));
    old->ppConnectorType = boxed(calloc(1, 32));
    old->pulBodyType = calloc(1, 8);
    old->pulVersion = calloc(1, 8);
    buffer->pbFirstInXact = calloc(1, 8);
    buffer->pbLastInXact = calloc(1, 8);
    buffer->ppXactID = boxed(calloc(1, 32));
    return buffer;
}

static void add_array(answer *to, const char *key, void *box, DWORD size, const DWORD *length, size_t unit)
{
    void **data = box;
    if (length) add(to, " %s_length=%lu", key, (unsigned long)*length);
    if (data && *data) add_bytes(to, key, *data, size * unit);
}

static void add_struct(answer *to, const char *key, void *box, size_t size)
{
    if (box) add_array(to, key, box, size, NULL, 1);
}

#define SCALAR(key, field) if (field) add(to, " " key "=%lu", (unsigned long)*(field))

void add_buffer(answer *to, const CACTransferBufferV2 *buffer)
{
    const CACTransferBufferV1 *old = &buffer->old;
    const RECEIVE_ARM *arm = &old->arm.Receive;
    if (old->uTransferType == 1)
    {
        add_array(to, "response", arm->ppResponseFormatName, arm->ulResponseFormatNameLen, arm->pulResponseFormatNameLenProp, 2);
        add_array(to, "admin", arm->ppAdminFormatName, arm->ulAdminFormatNameLen, arm->pulAdminFormatNameLenProp, 2);
        add_array(to, "destination", arm->ppDestFormatName, arm->ulDestFormatNameLen, arm->pulDestFormatNameLenProp, 2);
        add_array(to, "ordering", arm->ppOrderingFormatName, arm->ulOrderingFormatNameLen, arm->pulOrderingFormatNameLenProp, 2);
    }
    add_array(to, "body", old->ppBody, old->ulBodyBufferSizeInBytes, old->pBodySize, 1);
    add_array(to, "label", old->ppTitle, old->ulTitleBufferSizeInWCHARs, old->pulTitleBufferSizeInWCHARs, 2);
    add_array(to, "extension", old->ppMsgExtension, old->ulMsgExtensionBufferInBytes, old->pMsgExtensionSize, 1);
    add_array(to, "sender_id", old->ppSenderID, old->uSenderIDLen, old->pulSenderIDLenProp, 1);
    add_array(to, "certificate", old->ppSenderCert, old->ulSenderCertLen, old->pulSenderCertLenProp, 1);
    add_array(to, "provider", old->ppwcsProvName, old->ulProvNameLen, old->pulAuthProvNameLenProp, 2);
    add_array(to, "symmetric_key", old->ppSymmKeys, old->ulSymmKeysSize, old->pulSymmKeysSizeProp, 1);
    add_array(to, "signature", old->ppSignature, old->ulSignatureSize, old->pulSignatureSizeProp, 1);
    add_struct(to, "message_id", old->ppMessageID, 20);
    add_struct(to, "correlation", old->ppCorrelationID, 20);
    add_struct(to, "source", old->ppSrcQMID, 16);
    add_struct(to, "connector_type", old->ppConnectorType, 16);
    add_struct(to, "xact_id", buffer->ppXactID, 20);
    SCALAR("class", old->pClass);
    SCALAR("sent_time", old->pSentTime);
    SCALAR("arrived_time", old->pArrivedTime);
    SCALAR("priority", old->pPriority);
    SCALAR("delivery", old->pDelivery);
    SCALAR("acknowledge", old->pAcknowledge);
    SCALAR("auditing", old->pAuditing);
    SCALAR("application_tag", old->pApplicationTag);
    SCALAR("relative_time_to_queue", old->pulRelativeTimeToQueue);
    SCALAR("relative_time_to_live", old->pulRelativeTimeToLive);
    SCALAR("trace", old->pTrace);
    SCALAR("sender_id_type", old->pulSenderIDType);
    SCALAR("priv_level", old->pulPrivLevel);
    SCALAR("authenticated", old->pAuthenticated);
    SCALAR("hash_alg", old->pulHashAlg);
    SCALAR("encrypt_alg", old->pulEncryptAlg);
    SCALAR("prov_type", old->pulProvType);
    SCALAR("body_type", old->pulBodyType);
    SCALAR("version", old->pulVersion);
    SCALAR("first_in_xact", buffer->pbFirstInXact);
    SCALAR("last_in_xact", buffer->pbLastInXact);
}
