/* A disk that refuses: calls on files under UNFIT_PATH fail with UNFIT_ERRNO, while UNFIT_WHILE is
 * there. UNFIT_CALLS names them: lock, sync, write, map. Preloaded into a process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int refused(const char *call, int file) {
    char link[64], path[4096];
    const char *calls = getenv("UNFIT_CALLS"), *place = getenv("UNFIT_PATH");
    const char *sign = getenv("UNFIT_WHILE");
    if (file < 0 || !calls || !place || !strstr(calls, call)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (!strstr(path, place) || (sign && access(sign, F_OK) != 0)) return 0;
    errno = atoi(getenv("UNFIT_ERRNO"));
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define LOCKING(name)                                                           \
    int name(int file, int what, ...) {                                         \
        va_list rest;                                                           \
        va_start(rest, what);                                                   \
        void *more = va_arg(rest, void *);                                      \
        va_end(rest);                                                           \
        if ((what == F_SETLK || what == F_SETLKW) && refused("lock", file)) return -1; \
        return ((int (*)(int, int, ...))dlsym(RTLD_NEXT, #name))(file, what, more); \
    }
LOCKING(fcntl)
LOCKING(fcntl64)

int fsync(int file) { return refused("sync", file) ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return refused("sync", file) ? -1 : REAL(fdatasync)(file); }

ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    return refused("write", file) ? -1 : REAL(pwrite)(file, data, size, at);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    return refused("write", file) ? -1 : REAL(pwrite64)(file, data, size, at);
}

void *mmap(void *at, size_t size, int access, int flags, int file, off_t from) {
    if (refused("map", file)) return MAP_FAILED;
    return REAL(mmap)(at, size, access, flags, file, from);
}
void *mmap64(void *at, size_t size, int access, int flags, int file, off64_t from) {
    if (refused("map", file)) return MAP_FAILED;
    return REAL(mmap64)(at, size, access, flags, file, from);
}
