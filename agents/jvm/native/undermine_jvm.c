/* The native helper of the JVM agent. It is optional, and a C compiler alone can build it, since it doesn't need jni.h:
 *
 *     cc -O2 -shared -fPIC -o undermine_jvm.so undermine_jvm.c
 *
 * The JVM passes a table of functions. Their indexes are part of the JNI specification.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef void *const *const *environment;
typedef int32_t (*array_length)(environment, void *array);
typedef void (*array_bytes)(environment, void *array, int32_t start, int32_t length, char *into);

enum { GET_ARRAY_LENGTH = 171, GET_BYTE_ARRAY_REGION = 200, PATH_BYTES_MAX = 4096 };

#define EXPORTED __attribute__((visibility("default")))

/* Uses the system call, which a library that fakes the time for the target can't intercept. */
EXPORTED int64_t
Java_undermine_agent_process_NativeHelper_clock(environment env, void *class)
{
    struct timespec now;
    (void)env;
    (void)class;
    if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) != 0) {
        return 0;
    }
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* This process is in the cgroup too, so code after the write may never run. */
static void
kill_cgroup(const char *kill_file)
{
    int fd = open(kill_file, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "1", 1) < 0) {
        close(fd);
    }
}

EXPORTED void
Java_undermine_agent_process_NativeHelper_die(environment env, void *class, int32_t keeper, int32_t group, void *kill_file)
{
    char path[PATH_BYTES_MAX];
    int32_t length = ((array_length)(*env)[GET_ARRAY_LENGTH])(env, kill_file);
    (void)class;
    if (length < PATH_BYTES_MAX) {
        ((array_bytes)(*env)[GET_BYTE_ARRAY_REGION])(env, kill_file, 0, length, path);
        path[length] = '\0';
    } else {
        length = 0;
    }
    if (keeper > 0) {
        kill(keeper, SIGUSR1);
    }
    if (length > 0) {
        kill_cgroup(path);
    }
    if (group > 0 && getpgrp() == group) {
        kill(-group, SIGKILL);
    }
    kill(getpid(), SIGKILL);
    for (;;) {
        pause();
    }
}

#include "walk.h"
