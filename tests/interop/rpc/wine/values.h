/* Text of a command line to values of the protocol, and back. */
#ifndef VALUES_H
#define VALUES_H

#include <windows.h>
#include "queue_manager.h"

/* The words of one command: `verb key=value key=value`. */
typedef struct {
    const char *verb;
    int count;
    char *keys[512];
    char *texts[512];
} words;

void split(words *into, char *line);
const char *text_of(const words *from, const char *key);  /* NULL if it is not there */
unsigned long long number_of(const words *from, const char *key, unsigned long long otherwise);

/* All that these return is allocated and stays: the program is short. */
unsigned char *bytes_of(const char *hex, DWORD *length);
WCHAR *wide_of(const char *text);  /* %XX stands for the character XX, %uXXXX for a code unit */
QUEUE_FORMAT *format_of(const char *text);
MQ_PROPVARIANT variant_of(const char *text);

/* One answer is collected and written as one line. */
typedef struct { char *data; size_t length, room; } answer;

void add(answer *to, const char *format, ...);
void add_bytes(answer *to, const char *key, const void *data, size_t length);
void add_wide(answer *to, const char *key, const WCHAR *data, size_t length);
void add_format(answer *to, const char *key, const QUEUE_FORMAT *name);
void add_variant(answer *to, unsigned long id, const MQ_PROPVARIANT *value);

#endif
