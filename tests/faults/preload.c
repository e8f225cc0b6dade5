/* Faults of a disk, put between a program and libc by LD_PRELOAD.
 *
 * Owns: the words of a shared file (FAULTS_FILE), which preload.py names: what to fail, and counts of what happened. Only
 * frames count: calls on a descriptor open for reading and writing whose name ends in .seg. The zeros written ahead go
 * through a write-only descriptor. Must not know: turnlog.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum word {
    SYNCS,           /* fdatasync calls */
    SYNC_FAIL_AT,    /* this fdatasync fails, counted from 1; 0 = none */
    SYNC_ERRNO,
    SYNC_HOLD,       /* while this is its number, an fdatasync waits before it syncs */
    SYNC_HELD,       /* calls that wait now */
    SYNC_DONE,       /* fdatasync calls that returned success */
    SYNCFS_CALLS,
    SYNCFS_ERRNO,    /* every syncfs fails with this */
    WRITES,          /* write calls of frames */
    WRITE_FAIL_FROM, /* this and every later write fails; 0 = none */
    WRITE_ERRNO,
    WRITE_SHORT,     /* the first failing write, if not 0, writes this many bytes before */
    TRUNCATE_ERRNO,  /* every ftruncate fails with this */
    TRUNCATES,
    SYNC_FAIL_FROM,  /* this and every later fdatasync fails; 0 = none */
    WORDS
};

static _Atomic int *words(void) {
    static _Atomic(_Atomic int *) shared;
    if (atomic_load(&shared) == NULL) {
        int fd = open(getenv("FAULTS_FILE"), O_RDWR | O_CLOEXEC);
        void *found = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (found == MAP_FAILED) abort();
        atomic_store(&shared, found);
    }
    return atomic_load(&shared);
}

static int is_frames(int fd) {
    char link[64], name[4096];
    int flags = fcntl(fd, F_GETFL);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (flags == -1 || (flags & O_ACCMODE) != O_RDWR || length < 4) return 0;
    return memcmp(name + length - 4, ".seg", 4) == 0;
}

static void *real(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

int fdatasync(int fd) {
    int (*call)(int) = (int (*)(int))real("fdatasync");
    if (!is_frames(fd)) return call(fd);
    _Atomic int *word = words();
    int number = atomic_fetch_add(&word[SYNCS], 1) + 1;
    atomic_fetch_add(&word[SYNC_HELD], 1);
    while (atomic_load(&word[SYNC_HOLD]) == number) nanosleep(&(struct timespec){0, 1000000}, NULL);
    atomic_fetch_sub(&word[SYNC_HELD], 1);
    int from = atomic_load(&word[SYNC_FAIL_FROM]);
    if (number == atomic_load(&word[SYNC_FAIL_AT]) || (from != 0 && number >= from)) {
        errno = atomic_load(&word[SYNC_ERRNO]);
        return -1;
    }
    int answer = call(fd);
    if (answer == 0) atomic_fetch_add(&word[SYNC_DONE], 1);
    return answer;
}

int syncfs(int fd) {
    _Atomic int *word = words();
    atomic_fetch_add(&word[SYNCFS_CALLS], 1);
    if (atomic_load(&word[SYNCFS_ERRNO]) != 0) {
        errno = atomic_load(&word[SYNCFS_ERRNO]);
        return -1;
    }
    return ((int (*)(int))real("syncfs"))(fd);
}

static ssize_t write_at(const char *name, int fd, const void *data, size_t length, off_t offset) {
    ssize_t (*call)(int, const void *, size_t, off_t) = (ssize_t(*)(int, const void *, size_t, off_t))real(name);
    if (!is_frames(fd)) return call(fd, data, length, offset);
    _Atomic int *word = words();
    int number = atomic_fetch_add(&word[WRITES], 1) + 1;
    int from = atomic_load(&word[WRITE_FAIL_FROM]);
    if (from == 0 || number < from) return call(fd, data, length, offset);
    int some = atomic_load(&word[WRITE_SHORT]);
    if (number == from && some != 0) return call(fd, data, (size_t)some < length ? (size_t)some : length, offset);
    errno = atomic_load(&word[WRITE_ERRNO]);
    if (errno == 0) return call(fd, data, length, offset);
    return -1;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    return write_at("pwrite", fd, data, length, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) {
    return write_at("pwrite64", fd, data, length, offset);
}

static int cut(const char *name, int fd, off_t length) {
    int (*call)(int, off_t) = (int (*)(int, off_t))real(name);
    if (!is_frames(fd)) return call(fd, length);
    _Atomic int *word = words();
    atomic_fetch_add(&word[TRUNCATES], 1);
    if (atomic_load(&word[TRUNCATE_ERRNO]) != 0) {
        errno = atomic_load(&word[TRUNCATE_ERRNO]);
        return -1;
    }
    return call(fd, length);
}

int ftruncate(int fd, off_t length) {
    return cut("ftruncate", fd, length);
}

int ftruncate64(int fd, off_t length) {
    return cut("ftruncate64", fd, length);
}
