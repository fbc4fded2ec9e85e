/*
 * A client of a queue manager on Wine's RPC runtime, told what to do line by line.
 *
 * A line is `TAG verb key=value ...`; the answer is one line `TAG result=0x... name=value ...`, or `TAG fault=0x...`
 * where the runtime raised an exception. A TAG that begins with & runs beside the lines that follow it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
#include <wine/exception.h>
#include "buffer.h"

void *__RPC_USER MIDL_user_allocate(SIZE_T size) { return calloc(1, size); }
void __RPC_USER MIDL_user_free(void *data) { free(data); }

/* Names of handles: `as=NAME` keeps one, `handle=NAME` uses it. */
static struct { char name[64]; void *handle; } kept[4096];
static CRITICAL_SECTION guard;

static void **slot(const char *name)
{
    int i;
    EnterCriticalSection(&guard);
    for (i = 0; i < 4095 && kept[i].name[0] && strcmp(kept[i].name, name); i++) ;
    strncpy(kept[i].name, name, 63);
    LeaveCriticalSection(&guard);
    return &kept[i].handle;
}

static void **named(const words *from, const char *key)
{
    const char *name = text_of(from, key);
    return slot(name ? name : key);
}

static handle_t binding_of(const words *from) { return *named(from, "binding"); }

static OBJECT_FORMAT *object_of(const words *from)
{
    OBJECT_FORMAT *object = calloc(1, sizeof(*object));
    const char *text = text_of(from, "name");
    object->ObjType = number_of(from, "object_type", 1);
    object->object.pQueueFormat = text ? format_of(text) : NULL;
    return object;
}

static void add_handle(answer *to, void *handle)
{
    unsigned char wire[20] = {0};
    if (handle) NDRCContextMarshall(handle, wire);
    add_bytes(to, "handle", wire, 20);
}

/* bind host= [port=] [service=10|9|16 level= user= domain= password= target=]; without a port the mapper is asked. */
static HRESULT bind_to(const words *from, answer *to)
{
    static WCHAR tcp[] = {'n','c','a','c','n','_','i','p','_','t','c','p',0}, empty[] = {0};
    SEC_WINNT_AUTH_IDENTITY_W *identity;
    const char *text;
    handle_t made = NULL;
    WCHAR *string;
    RPC_STATUS status;
    status = RpcStringBindingComposeW(NULL, tcp, wide_of(text_of(from, "host")),
                                      (text = text_of(from, "port")) ? wide_of(text) : NULL, NULL, &string);
    if (status || (status = RpcBindingFromStringBindingW(string, &made))) return status;
    if (!text)
        status = RpcEpResolveBinding(made, text_of(from, "second") ? qmcomm2_v1_0_c_ifspec : qmcomm_v1_0_c_ifspec);
    if (!status && (text = text_of(from, "service")))
    {
        identity = calloc(1, sizeof(*identity));
        identity->User = (text = text_of(from, "user")) ? wide_of(text) : empty;
        identity->Domain = (text = text_of(from, "domain")) ? wide_of(text) : empty;
        identity->Password = (text = text_of(from, "password")) ? wide_of(text) : empty;
        identity->UserLength = lstrlenW(identity->User);
        identity->DomainLength = lstrlenW(identity->Domain);
        identity->PasswordLength = lstrlenW(identity->Password);
        identity->Flags = SEC_WINNT_AUTH_IDENTITY_UNICODE;
        status = RpcBindingSetAuthInfoExW(made, (text = text_of(from, "target")) ? wide_of(text) : empty,
                                          number_of(from, "level", 2), number_of(from, "service", 10),
                                          (RPC_AUTH_IDENTITY_HANDLE)identity, 0, NULL);
    }
    *named(from, "as") = made;
    if (!status && !RpcBindingToStringBindingW(made, &string)) add_wide(to, "string", string, lstrlenW(string));
    return status;
}

static HRESULT open_queue(const words *from, answer *to)
{
    const char *client = text_of(from, "client");
    WCHAR *name = NULL, **names = &name;
    DWORD queue = number_of(from, "queue", 0), context = 0;
    GUID license;
    void *handle = NULL;
    HRESULT result;
    memset(&license, 0x11, sizeof(license));
    if (text_of(from, "no_name")) names = NULL;
    result = rpc_QMOpenQueueInternal(
        binding_of(from), format_of(text_of(from, "name")), number_of(from, "access", 1), number_of(from, "share", 0),
        number_of(from, "remote_queue", 0), names, &queue, &license, wide_of(client ? client : "wine"), &context,
        &handle, number_of(from, "protocol", 0), number_of(from, "remote_context", 0));
    *named(from, "as") = handle;
    add(to, " context=%lu", (unsigned long)context);
    add_handle(to, handle);
    if (name) add_wide(to, "remote", name, lstrlenW(name));
    return result;
}

static HRESULT open_remote(const words *from, answer *to)
{
    const char *text = text_of(from, "name");
    void *handle = NULL;
    DWORD context = 0, queue = 0, remote = 0;
    GUID license;
    HRESULT result;
    memset(&license, 0x11, sizeof(license));
    result = R_QMOpenRemoteQueue(binding_of(from), &handle, &context, text ? format_of(text) : NULL, 0,
                                 number_of(from, "access", 1), number_of(from, "share", 0), &license,
                                 number_of(from, "mqs", 0x200), &queue, &remote);
    *named(from, "as") = handle;
    add_handle(to, handle);
    add(to, " context=%lu queue=%lu remote_queue=%lu", (unsigned long)context, (unsigned long)queue, (unsigned long)remote);
    return result;
}

/* Properties are `ID=type:value`, in the order of the command. */
static DWORD properties_of(const words *from, DWORD *ids, MQ_PROPVARIANT *values)
{
    DWORD count = 0;
    int i;
    for (i = 0; i < from->count && count < 130; i++)
    {
        if (from->keys[i][0] < '0' || from->keys[i][0] > '9') continue;
        ids[count] = strtoul(from->keys[i], NULL, 0);
        values[count++] = variant_of(from->texts[i]);
    }
    return number_of(from, "cp", count);
}

static HRESULT create_queue(const words *from)
{
    DWORD ids[160], size = 0, count;
    MQ_PROPVARIANT values[160];
    const char *security = text_of(from, "security");
    unsigned char *descriptor = security ? bytes_of(security, &size) : NULL;
    count = properties_of(from, ids, values);
    return R_QMCreateObjectInternal(binding_of(from), number_of(from, "type", 1), wide_of(text_of(from, "path")),
                                    number_of(from, "size", size), descriptor, count, ids, values);
}

static HRESULT get_properties(const words *from, answer *to)
{
    DWORD ids[160], count, i;
    MQ_PROPVARIANT values[160];
    HRESULT result;
    count = properties_of(from, ids, values);
    result = R_QMGetObjectProperties(binding_of(from), object_of(from), count, ids, values);
    for (i = 0; i < count; i++) add_variant(to, ids[i], &values[i]);
    return result;
}

static HRESULT set_properties(const words *from)
{
    DWORD ids[160], count;
    MQ_PROPVARIANT values[160];
    int absent = text_of(from, "absent") != NULL;
    count = properties_of(from, ids, values);
    return R_QMSetObjectProperties(binding_of(from), object_of(from), count, absent ? NULL : ids, absent ? NULL : values);
}

static HRESULT get_security(const words *from, answer *to)
{
    DWORD needed = 0, length = number_of(from, "length", 0);
    unsigned char *data = calloc(1, length + 1);
    HRESULT result = R_QMGetObjectSecurityInternal(binding_of(from), object_of(from), number_of(from, "parts", 7), data,
                                                   length, &needed);
    add(to, " needed=%lu", (unsigned long)needed);
    add_bytes(to, "security", data, length);
    return result;
}

static HRESULT set_security(const words *from)
{
    const char *security = text_of(from, "security");
    DWORD size = 0;
    unsigned char *data = security ? bytes_of(security, &size) : NULL;
    return R_QMSetObjectSecurityInternal(binding_of(from), object_of(from), number_of(from, "parts", 4),
                                         number_of(from, "size", size), data);
}

static HRESULT find_queue(const words *from, answer *to)
{
    QUEUE_FORMAT *unknown = calloc(1, sizeof(*unknown));
    OBJECT_FORMAT object;
    HRESULT result;
    unknown->m_qft = number_of(from, "qft", 0);
    object.ObjType = 1;
    object.object.pQueueFormat = text_of(from, "absent") ? NULL : unknown;
    result = R_QMObjectPathToObjectFormat(binding_of(from), wide_of(text_of(from, "path")), &object);
    if (object.object.pQueueFormat) add_format(to, "format", object.object.pQueueFormat);
    return result;
}

static HRESULT format_name(const words *from, answer *to)
{
    DWORD size = number_of(from, "length", 0), length = number_of(from, "stated", size);
    WCHAR *name = size ? calloc(size, sizeof(WCHAR)) : NULL;
    HRESULT result = rpc_ACHandleToFormatName(*named(from, "handle"), size, name, &length);
    add(to, " length=%lu", (unsigned long)length);
    if (name) add_wide(to, "name", name, size);
    return result;
}

static HRESULT send_message(const words *from, answer *to)
{
    MQ_OBJECTID id, *wanted = text_of(from, "no_id") ? NULL : &id;
    HRESULT result;
    memset(&id, 0, sizeof(id));
    result = rpc_ACSendMessageEx(*named(from, "handle"), send_buffer(from), wanted);
    if (wanted) add_bytes(to, "message_id", &id, 20);
    return result;
}

static HRESULT receive_message(const words *from, answer *to)
{
    CACTransferBufferV2 *buffer = receive_buffer(from);
    HRESULT result = rpc_ACReceiveMessageEx(binding_of(from), number_of(from, "context", 0), buffer);
    add_buffer(to, buffer);
    return result;
}

static HRESULT registry(const words *from, answer *to)
{
    WCHAR *value = NULL;
    HRESULT result = R_QMQueryQMRegistryInternal(binding_of(from), number_of(from, "query", 0), &value);
    if (value) add_wide(to, "value", value, lstrlenW(value));
    return result;
}

static HRESULT create_cursor(const words *from, answer *to)
{
    CACCreateRemoteCursor cursor = {number_of(from, "a", 0), number_of(from, "b", 0), number_of(from, "c", 0)};
    HRESULT result = rpc_ACCreateCursorEx(*named(from, "handle"), &cursor);
    add(to, " cursor=%lu b=%lu c=%lu", (unsigned long)cursor.hCursor, (unsigned long)cursor.srv_hACQueue,
        (unsigned long)cursor.cli_pQMQueue);
    return result;
}

static HRESULT create_remote_cursor(const words *from, answer *to)
{
    CACTransferBufferV2 *buffer = send_buffer(from);
    DWORD cursor = 0;
    HRESULT result = R_QMCreateRemoteCursor(binding_of(from), &buffer->old, number_of(from, "queue", 0), &cursor);
    add(to, " cursor=%lu", (unsigned long)cursor);
    return result;
}

static HRESULT enlist(const words *from, answer *to)
{
    MQ_XACTUOW uow;
    void *handle = NULL;
    HRESULT result;
    memcpy(&uow, bytes_of(text_of(from, "uow"), NULL), 16);
    result = R_QMEnlistInternalTransaction(binding_of(from), &uow, &handle);
    *named(from, "as") = handle;
    add_handle(to, handle);
    return result;
}

static HRESULT enlist_external(const words *from)
{
    MQ_XACTUOW uow;
    DWORD length;
    unsigned char *cookie = bytes_of(text_of(from, "cookie"), &length);
    memcpy(&uow, bytes_of(text_of(from, "uow"), NULL), 16);
    return R_QMEnlistTransaction(binding_of(from), &uow, length, cookie);
}

static HRESULT whereabouts(const words *from, answer *to)
{
    DWORD size = number_of(from, "length", 0), needed = 0;
    unsigned char *data = calloc(1, size + 1);
    HRESULT result = R_QMGetTmWhereabouts(binding_of(from), size, data, &needed);
    add(to, " needed=%lu", (unsigned long)needed);
    add_bytes(to, "whereabouts", data, size);
    return result;
}

static HRESULT remote_name(const words *from, answer *to)
{
    WCHAR *name = NULL;
    HRESULT result = R_QMGetRemoteQueueName(binding_of(from), number_of(from, "queue", 0), &name);
    if (name) add_wide(to, "remote", name, lstrlenW(name));
    return result;
}

static HRESULT send_internal(const words *from)
{
    MQ_OBJECTID id;
    memset(&id, 0, sizeof(id));
    return QMSendMessageInternalEx(binding_of(from), format_of(text_of(from, "name")), send_buffer(from), &id);
}

/* A handle of one's own making: 20 bytes for a binding. */
static HRESULT forge(const words *from)
{
    void *handle = NULL;
    NDRCContextUnmarshall(&handle, binding_of(from), bytes_of(text_of(from, "bytes"), NULL), 0x10);
    *named(from, "as") = handle;
    return 0;
}

typedef HRESULT (__cdecl *ending)(void **handle);

static HRESULT ended(ending call, const words *from, answer *to)
{
    void **handle = named(from, "handle");
    HRESULT result = call(handle);
    add_handle(to, *handle);
    return result;
}

static HRESULT __cdecl close_remote(void **handle) { R_QMCloseRemoteQueueContext(handle); return 0; }

static HRESULT unbind(const words *from) { return RpcBindingFree(named(from, "binding")); }

static HRESULT run(const words *from, answer *to)
{
    const char *verb = from->verb;
    if (!strcmp(verb, "bind")) return bind_to(from, to);
    if (!strcmp(verb, "unbind")) return unbind(from);
    if (!strcmp(verb, "forge")) return forge(from);
    if (!strcmp(verb, "port")) return R_QMGetRTQMServerPort(binding_of(from), number_of(from, "which", 0));
    if (!strcmp(verb, "registry")) return registry(from, to);
    if (!strcmp(verb, "create")) return create_queue(from);
    if (!strcmp(verb, "delete")) return R_QMDeleteObject(binding_of(from), object_of(from));
    if (!strcmp(verb, "get")) return get_properties(from, to);
    if (!strcmp(verb, "set")) return set_properties(from);
    if (!strcmp(verb, "get_security")) return get_security(from, to);
    if (!strcmp(verb, "set_security")) return set_security(from);
    if (!strcmp(verb, "find")) return find_queue(from, to);
    if (!strcmp(verb, "open")) return open_queue(from, to);
    if (!strcmp(verb, "open_remote")) return open_remote(from, to);
    if (!strcmp(verb, "close")) return ended(rpc_ACCloseHandle, from, to);
    if (!strcmp(verb, "close_remote")) return ended(close_remote, from, to);
    if (!strcmp(verb, "format_name")) return format_name(from, to);
    if (!strcmp(verb, "purge")) return rpc_ACPurgeQueue(*named(from, "handle"));
    if (!strcmp(verb, "send")) return send_message(from, to);
    if (!strcmp(verb, "receive")) return receive_message(from, to);
    if (!strcmp(verb, "cursor")) return create_cursor(from, to);
    if (!strcmp(verb, "remote_cursor")) return create_remote_cursor(from, to);
    if (!strcmp(verb, "close_cursor")) return rpc_ACCloseCursor(*named(from, "handle"), number_of(from, "cursor", 0));
    if (!strcmp(verb, "set_cursor"))
        return rpc_ACSetCursorProperties(*named(from, "handle"), number_of(from, "cursor", 0), number_of(from, "remote", 0));
    if (!strcmp(verb, "enlist")) return enlist(from, to);
    if (!strcmp(verb, "enlist_external")) return enlist_external(from);
    if (!strcmp(verb, "whereabouts")) return whereabouts(from, to);
    if (!strcmp(verb, "commit")) return ended(R_QMCommitTransaction, from, to);
    if (!strcmp(verb, "abort")) return ended(R_QMAbortTransaction, from, to);
    if (!strcmp(verb, "remote_name")) return remote_name(from, to);
    if (!strcmp(verb, "send_internal")) return send_internal(from);
    return E_NOTIMPL;
}

static DWORD CALLBACK perform(void *line)
{
    char *tag = line, *rest = strchr(line, ' ');
    answer to = {NULL, 0, 0};
    words *from = calloc(1, sizeof(*from));
    HRESULT result = 0;
    DWORD fault = 0;
    if (rest) *rest++ = 0;
    split(from, rest ? rest : tag + strlen(tag));
    add(&to, "");
    __TRY { result = run(from, &to); }
    __EXCEPT_ALL { fault = GetExceptionCode(); }
    __ENDTRY
    EnterCriticalSection(&guard);
    if (fault) printf("%s fault=0x%08lX\n", tag, (unsigned long)fault);
    else printf("%s result=0x%08lX%s\n", tag, (unsigned long)(DWORD)result, to.data);
    fflush(stdout);
    LeaveCriticalSection(&guard);
    free(from);
    free(to.data);
    free(line);
    return 0;
}

static char *next_line(void)
{
    size_t length = 0, room = 1 << 16;
    char *line = malloc(room);
    while (fgets(line + length, room - length, stdin))
    {
        length += strlen(line + length);
        if (length && line[length - 1] == '\n') return line;
        line = realloc(line, room *= 2);
    }
    return NULL;
}

int main(void)
{
    char *line;
    InitializeCriticalSection(&guard);
    while ((line = next_line()))
    {
        if (line[0] == '&') CloseHandle(CreateThread(NULL, 0, perform, line, 0, NULL));
        else perform(line);
    }
    return 0;
}
