/* An LD_PRELOAD library for tests: file calls under one directory fail at a chosen call, or the power is cut there.

   LIOR_FAULTS_DIRECTORY  absolute, canonical; only files under it count (SQLite's -shm files never do)
   LIOR_FAULTS_COUNTER    a file outside of it whose first 8 bytes count the calls
   LIOR_FAULTS_GRAVE      a directory outside of it on the same file system: keeps what an undone unlink needs
   LIOR_FAULTS_FAIL_AT    number of the first call that fails, from 1; 0 for none
   LIOR_FAULTS_FAIL_COUNT how many calls fail from there on; 0 for all
   LIOR_FAULTS_ERRNO      with this error
   LIOR_FAULTS_CUT_AT     number of the call at which the power is cut; 0 for none
   LIOR_FAULTS_SEED       0: everything unsynced is lost; else the seed that picks what survived

   The model: a write or truncation is durable once its file has been synced, a name once its directory has.
   The library does each call at once and keeps a log to undo it. Its own calls go straight to the kernel. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_FD 4096
#define MAX_FILES 4096
#define SECTOR 512

struct file { dev_t dev; ino_t ino; int fd; };             /* fd: ours, never closed, since a close drops POSIX locks */
struct data_change {                                       /* a write (new_size bytes at offset) or a truncation */
    struct data_change *next, *previous;
    int file, truncation;
    off_t offset, old_length, new_length;
    size_t old_size, new_size;
    char *old_bytes, *new_bytes;
};
struct name_change {                                       /* what to do to take it back */
    struct name_change *next, *previous;
    enum { CREATED, REMOVED, RENAMED } kind;
    char path[PATH_MAX], other[PATH_MAX], saved[PATH_MAX]; /* saved: in the grave, "" for nothing */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char directory[PATH_MAX], grave[PATH_MAX];
static size_t directory_length;
static uint64_t *counter, fail_at, fail_count, cut_at, seed, graves;
static int fail_errno;
static struct file files[MAX_FILES];
static int file_count;
static int of_fd[MAX_FD];                                  /* 0: not ours; else file index + 1; -1: a directory */
static struct data_change *data_first, *data_last;
static struct name_change *name_first, *name_last;

static uint64_t number(const char *name) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

/* At load, and again in a forked child that has set its environment. */
__attribute__((constructor)) void lior_faults_start(void) {
    const char *where = getenv("LIOR_FAULTS_DIRECTORY"), *count = getenv("LIOR_FAULTS_COUNTER");
    const char *graveyard = getenv("LIOR_FAULTS_GRAVE");
    if (!where || !count || !graveyard || strlen(where) >= PATH_MAX || strlen(graveyard) >= PATH_MAX - 32) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, count, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *page = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (page == MAP_FAILED) return;
    counter = page;
    strcpy(directory, where);
    strcpy(grave, graveyard);
    directory_length = strlen(directory);
    fail_at = number("LIOR_FAULTS_FAIL_AT");
    fail_count = number("LIOR_FAULTS_FAIL_COUNT");
    fail_errno = (int)number("LIOR_FAULTS_ERRNO");
    cut_at = number("LIOR_FAULTS_CUT_AT");
    seed = number("LIOR_FAULTS_SEED");
}

/* Which paths and descriptors are ours */

static void absolute(int at, const char *path, char *out) {
    char base[PATH_MAX] = "";
    if (path[0] != '/') {
        if (at == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) base[0] = 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
            ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1);
            base[size > 0 ? size : 0] = 0;
        }
    }
    if (base[0]) {
        size_t length = strlen(base);
        memcpy(out, base, length);
        out[length++] = '/';
        strncpy(out + length, path, PATH_MAX - 1 - length);
    } else {
        strncpy(out, path, PATH_MAX - 1);
    }
    out[PATH_MAX - 1] = 0;
}

static int ours(const char *path) {
    if (!counter || strncmp(path, directory, directory_length)) return 0;
    char after = path[directory_length];
    size_t length = strlen(path);
    return (after == '/' || after == 0) && !(length > 4 && !strcmp(path + length - 4, "-shm"));
}

static int file_of(int fd) {
    struct stat about;
    if (fstat(fd, &about)) return 0;
    if (S_ISDIR(about.st_mode)) return -1;
    for (int i = 0; i < file_count; i++)
        if (files[i].dev == about.st_dev && files[i].ino == about.st_ino) return i + 1;
    if (file_count == MAX_FILES) return 0;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int mine = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDWR | O_CLOEXEC);
    if (mine < 0) return 0;
    files[file_count] = (struct file){about.st_dev, about.st_ino, mine};
    return ++file_count;
}

static int tracked(int fd) { return counter && fd >= 0 && fd < MAX_FD ? of_fd[fd] : 0; }

/* The undo log */

static off_t length_of(int file) {
    struct stat about;
    return fstat(files[file].fd, &about) ? 0 : about.st_size;
}

static void *keep(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (!memory) abort();
    return memory;
}

static void log_data(int file, int truncation, off_t offset, const char *new_bytes, size_t new_size) {
    struct data_change *change = keep(sizeof *change);
    change->file = file;
    change->truncation = truncation;
    change->offset = offset;
    change->old_length = length_of(file);
    change->new_length = offset;
    size_t lost = truncation ? (change->old_length > offset ? (size_t)(change->old_length - offset) : 0) : new_size;
    change->old_bytes = keep(lost);
    ssize_t had = lost ? syscall(SYS_pread64, files[file].fd, change->old_bytes, lost, offset) : 0;
    change->old_size = had > 0 ? (size_t)had : 0;
    change->new_size = new_size;
    change->new_bytes = keep(new_size);
    if (new_size) memcpy(change->new_bytes, new_bytes, new_size);
    change->previous = data_last;
    if (data_last) data_last->next = change; else data_first = change;
    data_last = change;
}

static void forget_data(int file) {
    for (struct data_change *change = data_first, *next; change; change = next) {
        next = change->next;
        if (change->file != file) continue;
        if (change->previous) change->previous->next = next; else data_first = next;
        if (next) next->previous = change->previous; else data_last = change->previous;
        free(change->old_bytes);
        free(change->new_bytes);
        free(change);
    }
}

static void log_name(int kind, const char *path, const char *other, const char *saved) {
    struct name_change *change = keep(sizeof *change);
    change->kind = kind;
    strcpy(change->path, path);
    if (other) strcpy(change->other, other);
    if (saved) strcpy(change->saved, saved);
    change->previous = name_last;
    if (name_last) name_last->next = change; else name_first = change;
    name_last = change;
}

static int in_directory(const char *path, const char *parent) {
    size_t length = strlen(parent);
    return !strncmp(path, parent, length) && path[length] == '/' && !strchr(path + length + 1, '/');
}

static void forget_names(const char *parent) {
    for (struct name_change *change = name_first, *next; change; change = next) {
        next = change->next;
        if (!in_directory(change->path, parent)) continue;
        if (change->previous) change->previous->next = next; else name_first = next;
        if (next) next->previous = change->previous; else name_last = change->previous;
        if (change->saved[0]) syscall(SYS_unlinkat, AT_FDCWD, change->saved, 0);
        free(change);
    }
}

/* Put a second name on what is about to lose its own, outside of the directory. */
static int save(const char *path, char *saved) {
    snprintf(saved, PATH_MAX, "%.*s/%d-%llu", PATH_MAX - 40, grave, (int)getpid(), (unsigned long long)++graves);
    return (int)syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, saved, 0);
}

/* The power cut */

static uint64_t chance(void) { /* splitmix64 */
    uint64_t z = (seed += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static void write_all(int fd, const char *bytes, size_t size, off_t offset) {
    while (size) {
        ssize_t done = syscall(SYS_pwrite64, fd, bytes, size, offset);
        if (done <= 0) return;
        bytes += done, size -= (size_t)done, offset += done;
    }
}

static void undo_data(void) {
    for (struct data_change *change = data_last; change; change = change->previous) {
        int fd = files[change->file].fd;
        write_all(fd, change->old_bytes, change->old_size, change->offset);
        syscall(SYS_ftruncate, fd, change->old_length);
    }
}

static void redo_some_data(void) {
    for (struct data_change *change = data_first; change; change = change->next) {
        int fd = files[change->file].fd;
        if (change->truncation) {
            if (chance() & 1) syscall(SYS_ftruncate, fd, change->new_length);
            continue;
        }
        uint64_t fate = chance() % 4; /* lost, whole, or torn at sectors */
        for (size_t at = 0; fate && at < change->new_size;) {
            off_t place = change->offset + (off_t)at;
            size_t some = SECTOR - (size_t)(place % SECTOR);
            if (some > change->new_size - at) some = change->new_size - at;
            if (fate == 1 || (chance() & 1)) write_all(fd, change->new_bytes + at, some, place);
            at += some;
        }
    }
}

static void undo_names(void) {
    uint64_t count = 0, survive = 0;
    for (struct name_change *change = name_first; change; change = change->next) count++;
    if (seed) survive = chance() % (count + 1); /* a journal keeps names in order: a first part survives */
    for (struct name_change *change = name_last; change && count > survive; change = change->previous, count--) {
        if (change->kind == CREATED) syscall(SYS_unlinkat, AT_FDCWD, change->path, 0);
        if (change->kind == RENAMED) syscall(SYS_renameat2, AT_FDCWD, change->path, AT_FDCWD, change->other, 0);
        if (change->saved[0]) syscall(SYS_renameat2, AT_FDCWD, change->saved, AT_FDCWD, change->path, 0);
    }
}

/* Count one call; returns nonzero, with errno set, if it has to fail. Holds the mutex. */
static int fault(void) {
    uint64_t call = __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
    if (cut_at && call == cut_at) {
        int torn = seed != 0;
        undo_data();
        if (torn) redo_some_data();
        undo_names();
        syscall(SYS_exit_group, 99);
    }
    if (fail_at && call >= fail_at && (!fail_count || call < fail_at + fail_count)) {
        errno = fail_errno;
        return 1;
    }
    return 0;
}

#define RETURN(value) do { int kept = errno; pthread_mutex_unlock(&mutex); errno = kept; return (value); } while (0)

/* The calls */

static int open_it(int at, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    absolute(at, path, full);
    if (!ours(full)) return (int)syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&mutex);
    if (fault()) RETURN(-1);
    struct stat about;
    int existed = !fstatat(AT_FDCWD, full, &about, AT_SYMLINK_NOFOLLOW);
    int fd = (int)syscall(SYS_openat, at, path, flags & ~O_TRUNC, mode);
    if (fd >= 0 && fd < MAX_FD) {
        of_fd[fd] = file_of(fd);
        if (!existed && of_fd[fd] > 0) log_name(CREATED, full, NULL, NULL);
        if (existed && (flags & O_TRUNC) && of_fd[fd] > 0) {
            log_data(of_fd[fd] - 1, 1, 0, NULL, 0);
            syscall(SYS_ftruncate, fd, (off_t)0);
        }
    }
    RETURN(fd);
}

static mode_t mode_of(int flags, va_list rest) {
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? (mode_t)va_arg(rest, int) : 0;
}

#define OPEN(NAME)                                                                            \
    int NAME(const char *path, int flags, ...) {                                              \
        va_list rest; va_start(rest, flags); mode_t mode = mode_of(flags, rest); va_end(rest); \
        return open_it(AT_FDCWD, path, flags, mode); }
#define OPENAT(NAME)                                                                          \
    int NAME(int at, const char *path, int flags, ...) {                                      \
        va_list rest; va_start(rest, flags); mode_t mode = mode_of(flags, rest); va_end(rest); \
        return open_it(at, path, flags, mode); }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)
int creat(const char *path, mode_t mode) { return open_it(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open_it(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static ssize_t write_it(int fd, const void *bytes, size_t size, off_t offset, int positioned) {
    if (tracked(fd) <= 0)
        return positioned ? syscall(SYS_pwrite64, fd, bytes, size, offset) : syscall(SYS_write, fd, bytes, size);
    pthread_mutex_lock(&mutex);
    if (fault()) RETURN(-1);
    int file = of_fd[fd] - 1;
    off_t place = offset;
    if (!positioned) {
        int flags = fcntl(fd, F_GETFL);
        place = flags & O_APPEND ? length_of(file) : (off_t)syscall(SYS_lseek, fd, (off_t)0, SEEK_CUR);
    }
    log_data(file, 0, place, bytes, size);
    ssize_t done = positioned ? syscall(SYS_pwrite64, fd, bytes, size, offset) : syscall(SYS_write, fd, bytes, size);
    if (done >= 0) data_last->new_size = (size_t)done < size ? (size_t)done : size;
    RETURN(done);
}

ssize_t write(int fd, const void *bytes, size_t size) { return write_it(fd, bytes, size, 0, 0); }
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) { return write_it(fd, bytes, size, at, 1); }
ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t at) { return write_it(fd, bytes, size, at, 1); }

static ssize_t writev_it(int fd, const struct iovec *parts, int count, off_t at, int positioned) {
    if (tracked(fd) <= 0)
        return positioned ? syscall(SYS_pwritev, fd, parts, count, at, 0) : syscall(SYS_writev, fd, parts, count);
    size_t size = 0, filled = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    char *together = keep(size);
    for (int i = 0; i < count; filled += parts[i].iov_len, i++)
        if (parts[i].iov_len) memcpy(together + filled, parts[i].iov_base, parts[i].iov_len);
    ssize_t done = write_it(fd, together, size, at, positioned);
    int kept = errno;
    free(together);
    errno = kept;
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) { return writev_it(fd, parts, count, 0, 0); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return writev_it(fd, parts, count, at, 1); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return writev_it(fd, parts, count, at, 1); }

static int truncate_it(int fd, off_t length) {
    if (tracked(fd) <= 0) return (int)syscall(SYS_ftruncate, fd, length);
    pthread_mutex_lock(&mutex);
    if (fault()) RETURN(-1);
    log_data(of_fd[fd] - 1, 1, length, NULL, 0);
    RETURN((int)syscall(SYS_ftruncate, fd, length));
}
int ftruncate(int fd, off_t length) { return truncate_it(fd, length); }
int ftruncate64(int fd, off_t length) { return truncate_it(fd, length); }

/* No power is cut here, so nothing has to reach the disk: only the log has to forget. */
static int sync_it(int fd, long call) {
    int which = tracked(fd);
    if (!which) return (int)syscall(call, fd);
    pthread_mutex_lock(&mutex);
    if (fault()) RETURN(-1);
    if (which > 0) {
        forget_data(which - 1);
    } else {
        char link[64], path[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
        path[size > 0 ? size : 0] = 0;
        forget_names(path);
    }
    RETURN(0);
}
int fsync(int fd) { return sync_it(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_it(fd, SYS_fdatasync); }

static int rename_it(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    char full_from[PATH_MAX], full_to[PATH_MAX], saved[PATH_MAX];
    absolute(from_at, from, full_from);
    absolute(to_at, to, full_to);
    if (!ours(full_from) || !ours(full_to)) return (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags);
    pthread_mutex_lock(&mutex);
    if (fault()) RETURN(-1);
    int replaces = !save(full_to, saved);
    int done = (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags);
    if (!done) log_name(RENAMED, full_to, full_from, replaces ? saved : NULL);
    RETURN(done);
}
int rename(const char *from, const char *to) { return rename_it(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return rename_it(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return rename_it(a, from, b, to, flags); }

static int unlink_it(int at, const char *path, int flags) {
    char full[PATH_MAX], saved[PATH_MAX];
    absolute(at, path, full);
    if (!ours(full) || flags) return (int)syscall(SYS_unlinkat, at, path, flags);
    pthread_mutex_lock(&mutex);
    if (fault()) RETURN(-1);
    int kept_copy = !save(full, saved);
    int done = (int)syscall(SYS_unlinkat, at, path, 0);
    if (!done && kept_copy) log_name(REMOVED, full, NULL, saved);
    RETURN(done);
}
int unlink(const char *path) { return unlink_it(AT_FDCWD, path, 0); }
int unlinkat(int at, const char *path, int flags) { return unlink_it(at, path, flags); }

/* As on Linux, a close that reports an error has closed. */
int close(int fd) {
    int which = tracked(fd);
    if (!which) return (int)syscall(SYS_close, fd);
    pthread_mutex_lock(&mutex);
    of_fd[fd] = 0;
    int failing = fault();
    int kept = errno;
    int done = (int)syscall(SYS_close, fd);
    if (failing) {
        errno = kept;
        done = -1;
    }
    RETURN(done);
}
