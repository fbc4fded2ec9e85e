/* A PGM source on libpgm: sends messages of standard input to a group, each behind its length in four octets, the lowest
   first, and repairs what receivers ask for until its standard input ends. It splits no message: libpgm 5.3 cannot.
   usage: sender INTERFACE;GROUP PORT */
#include <pgm/pgm.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void check(int ok, pgm_error_t *error, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, error && error->message ? error->message : "?");
        exit(1);
    }
}

static pgm_sock_t *sock;

/* NAKs are served while somebody receives, and a call that may wait never comes back. */
static void serve(void) {
    static char buffer[1 << 16];
    pgm_error_t *error = NULL;
    size_t length;
    pgm_recv(sock, buffer, sizeof buffer, MSG_DONTWAIT, &length, &error);
    if (error) pgm_error_free(error);
    poll(NULL, 0, 1);
}

int main(int argc, char **argv) {
    pgm_error_t *error = NULL;
    struct pgm_addrinfo_t *found = NULL;
    if (argc != 3) return 2;
    check(pgm_init(&error), error, "init");
    check(pgm_getaddrinfo(argv[1], NULL, &found, &error), error, "address");
    check(pgm_socket(&sock, AF_INET, SOCK_SEQPACKET, IPPROTO_PGM, &error), error, "socket");
    int yes = 1, mtu = 1500, window = 4096, spm = 100000, ttl = 16;
    int beats[] = {100000, 100000, 200000, 500000, 1000000};
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_MTU, &mtu, sizeof mtu);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_TXW_SQNS, &window, sizeof window);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_RXW_SQNS, &window, sizeof window);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_AMBIENT_SPM, &spm, sizeof spm);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_HEARTBEAT_SPM, beats, sizeof beats);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_MULTICAST_HOPS, &ttl, sizeof ttl);
    int values[] = {60 * 1000000, 250000, 50000, 750000, 2000000, 10, 10};
    int options[] = {PGM_PEER_EXPIRY, PGM_SPMR_EXPIRY, PGM_NAK_BO_IVL, PGM_NAK_RPT_IVL, PGM_NAK_RDATA_IVL,
                     PGM_NAK_DATA_RETRIES, PGM_NAK_NCF_RETRIES};
    for (int i = 0; i < 7; i++) pgm_setsockopt(sock, IPPROTO_PGM, options[i], &values[i], sizeof values[i]);
    struct pgm_sockaddr_t address;
    memset(&address, 0, sizeof address);
    address.sa_port = atoi(argv[2]);
    address.sa_addr.sport = DEFAULT_DATA_SOURCE_PORT;
    check(pgm_gsi_create_from_hostname(&address.sa_addr.gsi, &error), error, "gsi");
    struct pgm_interface_req_t interface;
    memset(&interface, 0, sizeof interface);
    interface.ir_interface = found->ai_recv_addrs[0].gsr_interface;
    check(pgm_bind3(sock, &address, sizeof address, &interface, sizeof interface, &interface, sizeof interface, &error),
          error, "bind");
    for (unsigned i = 0; i < found->ai_recv_addrs_len; i++)
        pgm_setsockopt(sock, IPPROTO_PGM, PGM_JOIN_GROUP, &found->ai_recv_addrs[i], sizeof(struct group_req));
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_SEND_GROUP, &found->ai_send_addrs[0], sizeof(struct group_req));
    check(pgm_connect(sock, &error), error, "connect");
    for (int i = 0; i < 200; i++) serve(); /* so that the first SPMs have told who sends */
    unsigned char head[4];
    static char message[1400];
    while (fread(head, 1, 4, stdin) == 4) {
        size_t length = head[0] | head[1] << 8;
        if (length > sizeof message || fread(message, 1, length, stdin) != length) return 3;
        while (pgm_send(sock, message, length, NULL) != PGM_IO_STATUS_NORMAL) serve();
        for (int i = 0; i < 3; i++) serve();
        if (!head[3]) continue;
        printf("sent\n"); /* the last one: from now on only repairs, until somebody ends this process */
        fflush(stdout);
        for (;;) serve();
    }
    return 0;
}
