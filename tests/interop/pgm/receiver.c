/* A PGM receiver on libpgm: prints the length and the first octets of each message of a group, one a line.
   usage: receiver INTERFACE;GROUP PORT COUNT */
#include <pgm/pgm.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void check(int ok, pgm_error_t *error, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, error && error->message ? error->message : "?");
        exit(1);
    }
}

int main(int argc, char **argv) {
    pgm_error_t *error = NULL;
    struct pgm_addrinfo_t *found = NULL;
    pgm_sock_t *sock = NULL;
    if (argc != 4) return 2;
    check(pgm_init(&error), error, "init");
    check(pgm_getaddrinfo(argv[1], NULL, &found, &error), error, "address");
    check(pgm_socket(&sock, AF_INET, SOCK_SEQPACKET, IPPROTO_PGM, &error), error, "socket");
    int yes = 1, no = 0, mtu = 1500, window = 4096, spm = 100000, peer = 60 * 1000000, spmr = 250000;
    int nak_back_off = 50000, repeat = 750000, repair = 2000000, retries = 10;
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_RECV_ONLY, &yes, sizeof yes);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_PASSIVE, &no, sizeof no);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_MTU, &mtu, sizeof mtu);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_RXW_SQNS, &window, sizeof window);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_PEER_EXPIRY, &peer, sizeof peer);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_SPMR_EXPIRY, &spmr, sizeof spmr);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_NAK_BO_IVL, &nak_back_off, sizeof nak_back_off);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_NAK_RPT_IVL, &repeat, sizeof repeat);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_NAK_RDATA_IVL, &repair, sizeof repair);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_NAK_DATA_RETRIES, &retries, sizeof retries);
    pgm_setsockopt(sock, IPPROTO_PGM, PGM_NAK_NCF_RETRIES, &retries, sizeof retries);
    (void)spm;
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
    printf("ready\n");
    fflush(stdout);
    int left = atoi(argv[3]);
    static char buffer[1 << 17];
    while (left > 0) {
        size_t length = 0;
        struct pgm_sockaddr_t from;
        socklen_t size = sizeof from;
        int status = pgm_recvfrom(sock, buffer, sizeof buffer, MSG_DONTWAIT, &length, &from, &size, &error);
        if (status == PGM_IO_STATUS_NORMAL) {
            unsigned sum = 0;
            for (size_t i = 0; i < length; i++) sum = sum * 31 + (unsigned char)buffer[i];
            printf("%zu %u\n", length, sum);
            fflush(stdout);
            left--;
        } else {
            if (status == PGM_IO_STATUS_RESET) fprintf(stderr, "reset\n");
            if (error) { pgm_error_free(error); error = NULL; }
            poll(NULL, 0, 1);
        }
    }
    return 0;
}
