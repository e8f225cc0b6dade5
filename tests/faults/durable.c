/* Records what a disk holds for sure: put between a program and libc by LD_PRELOAD, behind preload.c.
 *
 * Owns: the records in the folder DURABLE_RECORDS, one for each sync of a file or folder below DURABLE_ROOT that returned
 * success, and their count in the shared file DURABLE_COUNT. A record holds what was there when the sync began: a file's
 * bytes, or a folder's names with their inodes. Nothing else is durable. syncfs is refused, so that every file is synced
 * by itself. Each sync takes DURABLE_DELAY_MS. Must not know: turnlog.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static _Atomic int *count(void) {
    static _Atomic(_Atomic int *) shared;
    if (atomic_load(&shared) == NULL) {
        int fd = open(getenv("DURABLE_COUNT"), O_RDWR | O_CLOEXEC);
        void *found = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (found == MAP_FAILED) abort();
        atomic_store(&shared, found);
    }
    return atomic_load(&shared);
}

static int is_below_root(int fd) {
    char link[64], name[4096];
    const char *root = getenv("DURABLE_ROOT");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length < 0) return 0;
    name[length] = 0;
    return strncmp(name, root, strlen(root)) == 0 && strstr(name, "index.db") == NULL;
}

static void write_names(int fd, FILE *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    DIR *folder = opendir(link);
    struct dirent *entry;
    if (folder == NULL) abort();
    while ((entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        fprintf(out, "%lu %c %s\n", (unsigned long)entry->d_ino, entry->d_type == DT_DIR ? 'd' : 'f', entry->d_name);
    }
    closedir(folder);
}

static void write_content(int fd, FILE *out) {
    char link[64], piece[65536];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int source = open(link, O_RDONLY | O_CLOEXEC);
    ssize_t length;
    if (source < 0) abort();
    while ((length = read(source, piece, sizeof piece)) > 0) fwrite(piece, 1, (size_t)length, out);
    close(source);
}

static int recorded(const char *name, int fd) {
    int (*call)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    static _Atomic int pending;
    char temporary[4096], kept[4096];
    const char *folder = getenv("DURABLE_RECORDS"), *delay = getenv("DURABLE_DELAY_MS");
    struct stat found;
    if (!is_below_root(fd) || fstat(fd, &found) != 0) return call(fd);
    int number = atomic_fetch_add(&pending, 1);
    int began = atomic_fetch_add(count() + 1, 1); /* of two syncs at once, the one that began later knows more */
    snprintf(temporary, sizeof temporary, "%s/pending-%d-%d", folder, (int)getpid(), number);
    FILE *out = fopen(temporary, "wb");
    if (out == NULL) abort();
    if (S_ISDIR(found.st_mode)) write_names(fd, out);
    else write_content(fd, out);
    fclose(out);
    nanosleep(&(struct timespec){0, atol(delay) * 1000000}, NULL);
    int answer = call(fd);
    if (answer != 0) {
        unlink(temporary);
        return answer;
    }
    int step = atomic_fetch_add(count(), 1) + 1;
    snprintf(kept, sizeof kept, "%s/%d-%lu-%d", folder, step, (unsigned long)found.st_ino, began);
    if (rename(temporary, kept) != 0) abort();
    return 0;
}

int fdatasync(int fd) {
    return recorded("fdatasync", fd);
}

int fsync(int fd) {
    return recorded("fsync", fd);
}

int syncfs(int fd) {
    (void)fd;
    errno = EIO;
    return -1;
}
