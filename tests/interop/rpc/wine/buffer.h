/* CACTransferBufferV2 of a command, and what came back in one. */
#ifndef BUFFER_H
#define BUFFER_H

#include "values.h"

CACTransferBufferV2 *send_buffer(const words *from);
CACTransferBufferV2 *receive_buffer(const words *from);
void add_buffer(answer *to, const CACTransferBufferV2 *buffer);

#endif
