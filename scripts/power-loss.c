/* Logs what a process does to the files below one folder, so that scripts/power-loss can determine
 * what a disk would contain if the power failed at any moment. It is loaded with LD_PRELOAD and
 * changes nothing, unless it is told to make the disk fail:
 *
 *   POWER_LOSS_FOLDER   the folder, absolute
 *   POWER_LOSS_LOG      the log; its records are described at `struct record`
 *   POWER_LOSS_FAULTS   a folder; while it contains a file `full`, files can only grow by as much as
 *                       others shrink or are removed (ENOSPC), and while it contains a file `sync`,
 *                       nothing can be flushed (EIO)
 *
 * SQLite's shared memory (-shm) is left out: it is mapped, and recreated after a crash. Locks are
 * not logged. The record of a write, a new length or a name is written before the change, and both
 * happen before the record of the next one. */
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OPENED = 1, CREATED, WRITE, LENGTH, SYNC_BEGINS, SYNC_ENDS, UNLINK, RENAME };

/* Followed by `length` bytes: the data written, or a name, or both names of a rename with a NUL
   between them. */
struct record {
    uint32_t kind;
    uint32_t sync; /* which sync begins or ends */
    uint64_t inode;
    uint64_t offset; /* of a write; the new length */
    uint64_t length;
};

enum { DESCRIPTORS = 1 << 16 };
struct watched {
    uint64_t inode;
    int is_watched;
};
static struct watched watched[DESCRIPTORS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder, *faults;
static int log_fd = -1;
static uint32_t syncs;
/* Bytes that were freed since the disk became full. */
static int64_t room;

__attribute__((constructor)) static void begin(void) {
    folder = getenv("POWER_LOSS_FOLDER");
    faults = getenv("POWER_LOSS_FAULTS");
    const char *log = getenv("POWER_LOSS_LOG");
    if (folder && log) {
        log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    if (log_fd < 0) {
        fprintf(stderr, "power-loss: POWER_LOSS_FOLDER and POWER_LOSS_LOG must be set\n");
        _exit(70);
    }
}

/* One system call for each record, so that it is whole or missing however the process dies. */
static void note(enum kind kind, uint32_t sync, uint64_t inode, uint64_t offset, const void *bytes, size_t length) {
    struct record record = {kind, sync, inode, offset, length};
    struct iovec parts[] = {{&record, sizeof record}, {(void *)bytes, length}};
    if (syscall(SYS_writev, log_fd, parts, 2) != (long)(sizeof record + length)) {
        fprintf(stderr, "power-loss: the log cannot be written\n");
        _exit(70);
    }
}

/* The name below the folder, or NULL if it is not watched. */
static const char *inside(int directory, const char *path, char *whole) {
    if (path[0] != '/') {
        char link[64];
        ssize_t length = 0;
        if (directory == AT_FDCWD) {
            if (!getcwd(whole, PATH_MAX)) return NULL;
            length = (ssize_t)strlen(whole);
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
            length = readlink(link, whole, PATH_MAX - 1);
            if (length < 0) return NULL;
        }
        snprintf(whole + length, PATH_MAX - (size_t)length, "/%s", path);
    } else {
        snprintf(whole, PATH_MAX, "%s", path);
    }
    size_t length = strlen(folder), all = strlen(whole);
    if (strncmp(whole, folder, length) != 0 || (whole[length] != '/' && whole[length] != 0)) return NULL;
    if (all >= 4 && strcmp(whole + all - 4, "-shm") == 0) return NULL;
    return whole[length] == '/' ? whole + length + 1 : "";
}

static int has_fault(const char *name) {
    char path[PATH_MAX];
    if (!faults) return 0;
    snprintf(path, sizeof path, "%s/%s", faults, name);
    return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

static int is_watched(int fd) {
    return fd >= 0 && fd < DESCRIPTORS && watched[fd].is_watched;
}

static uint64_t length_of(int fd) {
    struct stat facts;
    return fstat(fd, &facts) == 0 ? (uint64_t)facts.st_size : 0;
}

/* Whether a file that is to end at `end` would need space that is not free; if it is free, it is
   allocated. */
static int is_full(int fd, uint64_t end, int may_shrink) {
    if (!has_fault("full")) {
        room = 0;
        return 0;
    }
    int64_t growth = (int64_t)end - (int64_t)length_of(fd);
    if (growth < 0 && !may_shrink) growth = 0;
    if (growth > room) return 1;
    room -= growth;
    return 0;
}

static int open_any(int directory, const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    const char *name = inside(directory, path, whole);
    if (!name) return (int)syscall(SYS_openat, directory, path, flags, mode);
    pthread_mutex_lock(&lock);
    int is_new = syscall(SYS_faccessat, AT_FDCWD, whole, F_OK) != 0;
    struct stat before;
    if (!is_new && (flags & O_TRUNC) && has_fault("full") && stat(whole, &before) == 0) room += before.st_size;
    int fd = (int)syscall(SYS_openat, directory, path, flags, mode);
    int error = errno;
    struct stat facts;
    if (fd >= 0 && fd < DESCRIPTORS && fstat(fd, &facts) == 0) {
        watched[fd] = (struct watched){facts.st_ino, 1};
        note(is_new ? CREATED : OPENED, 0, facts.st_ino, 0, name, strlen(name));
        if (!is_new && (flags & O_TRUNC)) note(LENGTH, 0, facts.st_ino, 0, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

static mode_t mode_in(int flags, va_list rest) {
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(NAME, DIRECTORY, ...)                                                                                     \
    int NAME(__VA_ARGS__, ...) {                                                                                       \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = mode_in(flags, rest);                                                                            \
        va_end(rest);                                                                                                  \
        return open_any(DIRECTORY, path, flags, mode);                                                                 \
    }

OPEN(open, AT_FDCWD, const char *path, int flags)
OPEN(open64, AT_FDCWD, const char *path, int flags)
OPEN(openat, directory, int directory, const char *path, int flags)
OPEN(openat64, directory, int directory, const char *path, int flags)

int close(int fd) {
    if (is_watched(fd)) watched[fd].is_watched = 0;
    return (int)syscall(SYS_close, fd);
}

static ssize_t write_at(int fd, const void *bytes, size_t length, off_t offset) {
    pthread_mutex_lock(&lock);
    ssize_t written = -1;
    if (is_full(fd, (uint64_t)offset + length, 0)) {
        errno = ENOSPC;
    } else {
        note(WRITE, 0, watched[fd].inode, (uint64_t)offset, bytes, length);
        written = (ssize_t)syscall(SYS_pwrite64, fd, bytes, length, offset);
    }
    int error = errno;
    if (written >= 0 && (size_t)written != length) {
        fprintf(stderr, "power-loss: a write was cut short\n");
        _exit(70);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return written;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) {
    if (!is_watched(fd)) return (ssize_t)syscall(SYS_pwrite64, fd, bytes, length, offset);
    return write_at(fd, bytes, length, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    return pwrite64(fd, bytes, length, offset);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    if (!is_watched(fd)) return (ssize_t)syscall(SYS_write, fd, bytes, length);
    int is_appending = (int)syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND;
    off_t offset = is_appending ? (off_t)length_of(fd) : lseek(fd, 0, SEEK_CUR);
    ssize_t written = write_at(fd, bytes, length, offset);
    if (written > 0) lseek(fd, offset + written, SEEK_SET);
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (!is_watched(fd)) return (ssize_t)syscall(SYS_writev, fd, parts, count);
    ssize_t all = 0;
    for (int part = 0; part < count; part++) {
        ssize_t written = write(fd, parts[part].iov_base, parts[part].iov_len);
        if (written < 0) return all ? all : written;
        all += written;
    }
    return all;
}

int ftruncate64(int fd, off_t length) {
    if (!is_watched(fd)) return (int)syscall(SYS_ftruncate, fd, length);
    pthread_mutex_lock(&lock);
    int result = -1;
    if (is_full(fd, (uint64_t)length, 1)) {
        errno = ENOSPC;
    } else {
        note(LENGTH, 0, watched[fd].inode, (uint64_t)length, NULL, 0);
        result = (int)syscall(SYS_ftruncate, fd, length);
    }
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int ftruncate(int fd, off_t length) {
    return ftruncate64(fd, length);
}

static int allocate(int fd, int mode, off_t offset, off_t length) {
    if (is_watched(fd) && mode == 0) {
        if (is_full(fd, (uint64_t)(offset + length), 0)) {
            errno = ENOSPC;
            return -1;
        }
        if ((uint64_t)(offset + length) > length_of(fd)) {
            pthread_mutex_lock(&lock);
            note(LENGTH, 0, watched[fd].inode, (uint64_t)(offset + length), NULL, 0);
            int result = (int)syscall(SYS_fallocate, fd, mode, offset, length);
            pthread_mutex_unlock(&lock);
            return result;
        }
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
    return allocate(fd, mode, offset, length);
}

int fallocate64(int fd, int mode, off_t offset, off_t length) {
    return allocate(fd, mode, offset, length);
}

int posix_fallocate(int fd, off_t offset, off_t length) {
    return allocate(fd, 0, offset, length) == 0 ? 0 : errno;
}

int posix_fallocate64(int fd, off_t offset, off_t length) {
    return posix_fallocate(fd, offset, length);
}

static int sync_by(long call, int fd) {
    if (!is_watched(fd)) return (int)syscall(call, fd);
    if (has_fault("sync")) {
        errno = EIO;
        return -1;
    }
    pthread_mutex_lock(&lock);
    uint32_t number = ++syncs;
    uint64_t inode = watched[fd].inode;
    note(SYNC_BEGINS, number, inode, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    int result = (int)syscall(call, fd), error = errno;
    if (result == 0) {
        pthread_mutex_lock(&lock);
        note(SYNC_ENDS, number, inode, 0, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return result;
}

int fsync(int fd) {
    return sync_by(SYS_fsync, fd);
}

int fdatasync(int fd) {
    return sync_by(SYS_fdatasync, fd);
}

/* Neither makes anything durable by itself, so their calls are not logged. */
int sync_file_range(int fd, off64_t offset, off64_t length, unsigned flags) {
    return (int)syscall(SYS_sync_file_range, fd, offset, length, flags);
}

static int unlink_any(int directory, const char *path, int flags) {
    char whole[PATH_MAX];
    const char *name = inside(directory, path, whole);
    pthread_mutex_lock(&lock);
    int exists = name && syscall(SYS_faccessat, AT_FDCWD, whole, F_OK) == 0;
    struct stat before;
    if (exists && has_fault("full") && stat(whole, &before) == 0) room += before.st_size;
    if (exists) note(UNLINK, 0, 0, 0, name, strlen(name));
    int result = (int)syscall(SYS_unlinkat, directory, path, flags), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int unlink(const char *path) {
    return unlink_any(AT_FDCWD, path, 0);
}

int unlinkat(int directory, const char *path, int flags) {
    return unlink_any(directory, path, flags);
}

int rename(const char *from, const char *to) {
    char whole[PATH_MAX], other[PATH_MAX], both[2 * PATH_MAX];
    const char *name = inside(AT_FDCWD, from, whole), *target = inside(AT_FDCWD, to, other);
    pthread_mutex_lock(&lock);
    if (name && target) {
        size_t length = strlen(name);
        memcpy(both, name, length + 1);
        memcpy(both + length + 1, target, strlen(target));
        note(RENAME, 0, 0, 0, both, length + 1 + strlen(target));
    }
    int result = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
