#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "values.h"

/* strtok is one for all threads. */
static char *part_of(char **at, const char *between)
{
    char *start = *at + strspn(*at, between), *end = start + strcspn(start, between);
    if (start == end) return NULL;
    *at = *end ? end + 1 : end;
    *end = 0;
    return start;
}

void split(words *into, char *line)
{
    char *word = part_of(&line, " \r\n");
    into->verb = word ? word : "";
    into->count = 0;
    while (word && (word = part_of(&line, " \r\n")) && into->count < 512)
    {
        char *equals = strchr(word, '=');
        if (equals) *equals++ = 0;
        into->keys[into->count] = word;
        into->texts[into->count++] = equals ? equals : word + strlen(word);
    }
}

const char *text_of(const words *from, const char *key)
{
    int i;
    for (i = 0; i < from->count; i++) if (!strcmp(from->keys[i], key)) return from->texts[i];
    return NULL;
}

unsigned long long number_of(const words *from, const char *key, unsigned long long otherwise)
{
    const char *text = text_of(from, key);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static int digit(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

unsigned char *bytes_of(const char *hex, DWORD *length)
{
    size_t i, count = strlen(hex) / 2;
    unsigned char *data = calloc(count + 1, 1);
    for (i = 0; i < count; i++) data[i] = digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]);
    if (length) *length = count;
    return data;
}

static GUID *guid_of(const char *hex)
{
    GUID *value = calloc(1, sizeof(GUID));
    DWORD length;
    unsigned char *data = bytes_of(hex, &length);
    memcpy(value, data, length < 16 ? length : 16);
    return value;
}

WCHAR *wide_of(const char *text)
{
    WCHAR *wide = calloc(strlen(text) + 1, sizeof(WCHAR)), *at = wide;
    unsigned int code;
    while (*text)
    {
        if (text[0] == '%' && text[1] == 'u' && sscanf(text + 2, "%4x", &code) == 1) text += 6;
        else if (text[0] == '%' && sscanf(text + 1, "%2x", &code) == 1) text += 3;
        else code = (unsigned char)*text++;
        *at++ = code;
    }
    return wide;
}

/* public:GUID private:GUID:NUMBER direct:TEXT machine:GUID connector:GUID dl:GUID:TEXT multicast:NUMBER:NUMBER
 * subqueue:TEXT unknown:; a suffix byte may follow as @0x81. */
QUEUE_FORMAT *format_of(const char *text)
{
    static const char *const kinds[] = {"unknown", "public", "private", "direct", "machine", "connector", "dl",
                                        "multicast", "subqueue"};
    QUEUE_FORMAT *name = calloc(1, sizeof(*name));
    char *copy = strdup(text), *rest, *second, *suffix = strrchr(copy, '@');
    if (suffix) { *suffix = 0; name->m_SuffixAndFlags = strtoul(suffix + 1, NULL, 0); }
    rest = strchr(copy, ':');
    if (rest) *rest++ = 0; else rest = copy + strlen(copy);
    while (name->m_qft < 9 && strcmp(kinds[name->m_qft], copy)) name->m_qft++;
    if (name->m_qft == 9) name->m_qft = strtoul(copy, NULL, 0);
    second = strchr(rest, ':');
    switch (name->m_qft)
    {
    case 1: case 4: case 5: name->id.m_gPublicID = *guid_of(rest); break;
    case 2:
        name->id.m_oPrivateID.Lineage = *guid_of(rest);
        name->id.m_oPrivateID.Uniquifier = second ? strtoul(second + 1, NULL, 0) : 0;
        break;
    case 3: name->id.m_pDirectID = wide_of(rest); break;
    case 6:
        name->id.m_DlID.m_DlGuid = *guid_of(rest);
        name->id.m_DlID.m_pwzDomain = second ? wide_of(second + 1) : NULL;
        break;
    case 7:
        name->id.m_MulticastID.m_address = strtoul(rest, NULL, 0);
        name->id.m_MulticastID.m_port = second ? strtoul(second + 1, NULL, 0) : 0;
        break;
    case 8: name->id.m_pDirectSubqueueID = wide_of(rest); break;
    }
    return name;
}

/* TYPE:VALUE; vectors of numbers and strings are separated by commas. */
MQ_PROPVARIANT variant_of(const char *text)
{
    static const struct { const char *name; unsigned short vt; int size; } types[] = {
        {"empty", 0, 0}, {"null", 1, 0}, {"i1", 16, 1}, {"ui1", 17, 1}, {"i2", 2, 2}, {"ui2", 18, 2}, {"i4", 3, 4},
        {"ui4", 19, 4}, {"i8", 20, 8}, {"ui8", 21, 8}, {"bool", 11, 2}, {"clsid", 72, 0}, {"blob", 65, 0},
        {"wstr", 31, 0}, {"v_ui1", 0x1011, 1}, {"v_ui2", 0x1012, 2}, {"v_i4", 0x1003, 4}, {"v_ui4", 0x1013, 4},
        {"v_ui8", 0x1015, 8}, {"v_clsid", 0x1048, 16}, {"v_wstr", 0x101F, 0}, {"v_variant", 0x100C, 0}};
    MQ_PROPVARIANT value;
    char *copy = strdup(text), *rest = strchr(copy, ':'), *part;
    unsigned char *items;
    size_t i, count = 0;
    memset(&value, 0, sizeof(value));
    if (rest) *rest++ = 0; else rest = copy + strlen(copy);
    for (i = 0; i + 1 < sizeof(types) / sizeof(*types) && strcmp(types[i].name, copy); i++) ;
    value.vt = types[i].vt;
    if (value.vt == 72) value.varUnion.puuid = guid_of(rest);
    else if (value.vt == 65) value.varUnion.blob.pBlobData = bytes_of(rest, &value.varUnion.blob.cbSize);
    else if (value.vt == 31) value.varUnion.pwszVal = wide_of(rest);
    else if (value.vt < 0x1000) value.varUnion.hVal = strtoll(rest, NULL, 0);
    else
    {
        items = calloc(strlen(rest) + 1, 16);
        for (; (part = part_of(&rest, ",")); count++)
        {
            unsigned long long number = strtoull(part, NULL, 0);
            if (value.vt == 0x101F) ((WCHAR **)items)[count] = wide_of(part);
            else if (value.vt == 0x1048) ((GUID *)items)[count] = *guid_of(part);
            else memcpy(items + count * types[i].size, &number, types[i].size);
        }
        value.varUnion.caub.cElems = count;
        value.varUnion.caub.pElems = items;
    }
    return value;
}

void add(answer *to, const char *format, ...)
{
    va_list arguments;
    int wrote;
    for (;;)
    {
        va_start(arguments, format);
        wrote = vsnprintf(to->data + to->length, to->room - to->length, format, arguments);
        va_end(arguments);
        if (wrote >= 0 && to->length + wrote < to->room) break;
        to->room = to->room * 2 + 4096;
        to->data = realloc(to->data, to->room);
    }
    to->length += wrote;
}

void add_bytes(answer *to, const char *key, const void *data, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    char *hex = malloc(2 * length + 1);
    size_t i;
    for (i = 0; i < length; i++)
    {
        hex[2 * i] = digits[((const unsigned char *)data)[i] >> 4];
        hex[2 * i + 1] = digits[((const unsigned char *)data)[i] & 15];
    }
    hex[2 * length] = 0;
    add(to, " %s=%s", key, hex);
    free(hex);
}

/* UTF-16 as hex of its bytes: a reader must see what came, zeros and halves too. */
void add_wide(answer *to, const char *key, const WCHAR *data, size_t length)
{
    add_bytes(to, key, data, 2 * length);
}

static size_t units(const WCHAR *text)
{
    size_t count = 0;
    while (text[count]) count++;
    return count;
}

void add_format(answer *to, const char *key, const QUEUE_FORMAT *name)
{
    add(to, " %s=%u:%u:%u", key, name->m_qft, name->m_SuffixAndFlags, name->m_reserved);
    switch (name->m_qft)
    {
    case 1: case 4: case 5: add_bytes(to, "guid", &name->id.m_gPublicID, 16); break;
    case 2:
        add_bytes(to, "lineage", &name->id.m_oPrivateID.Lineage, 16);
        add(to, " uniquifier=%lu", (unsigned long)name->id.m_oPrivateID.Uniquifier);
        break;
    case 3: case 8: if (name->id.m_pDirectID) add_wide(to, "direct", name->id.m_pDirectID, units(name->id.m_pDirectID));
    }
}

void add_variant(answer *to, unsigned long id, const MQ_PROPVARIANT *value)
{
    char key[32];
    sprintf(key, "%lu.%u", id, value->vt);
    switch (value->vt)
    {
    case 0: case 1: add(to, " %s=", key); break;
    case 16: add(to, " %s=%d", key, value->varUnion.cVal); break;
    case 17: add(to, " %s=%u", key, value->varUnion.bVal); break;
    case 2: case 11: add(to, " %s=%d", key, value->varUnion.iVal); break;
    case 18: add(to, " %s=%u", key, value->varUnion.uiVal); break;
    case 3: add(to, " %s=%d", key, (int)value->varUnion.lVal); break;
    case 19: add(to, " %s=%u", key, (unsigned)value->varUnion.ulVal); break;
    case 20: case 21: add(to, " %s=%lld", key, (long long)value->varUnion.hVal); break;
    case 72: if (value->varUnion.puuid) add_bytes(to, key, value->varUnion.puuid, 16); else add(to, " %s=", key); break;
    case 31:
        if (value->varUnion.pwszVal) add_wide(to, key, value->varUnion.pwszVal, units(value->varUnion.pwszVal));
        else add(to, " %s=null", key);
        break;
    case 65: add_bytes(to, key, value->varUnion.blob.pBlobData, value->varUnion.blob.cbSize); break;
    default: add(to, " %s=%lu", key, (unsigned long)value->varUnion.caub.cElems);
    }
}
