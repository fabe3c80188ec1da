/* The clock of a target at a multiple of the true one: a library for LD_PRELOAD.
 *
 * All clocks of a process run SPEED times faster from ORIGIN on, a moment of CLOCK_MONOTONIC that all processes of a run
 * share. So their clocks agree with each other, whenever each process starts. A wait with a time limit takes the SPEED-th
 * part of it; the times of files follow the clock. The environment has both numbers: UNDERMINE_CLOCK="SPEED ORIGIN_NS".
 *
 *     shift = (SPEED - 1) * (true monotonic - ORIGIN)           the same for every clock
 *     target's clock = true clock + shift
 *
 * Never changes CPU clocks, and nothing in programs that make their system calls without the C library. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))
#define SECOND 1000000000LL
#define LONGEST (INT64_MAX / 4)

static int64_t speed = 1, origin;

/* The C library's own function of this name. */
#define REAL(name)                                                \
    ({                                                            \
        static __typeof__(&name) found_;                          \
        if (found_ == NULL) {                                     \
            found_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name);  \
        }                                                         \
        found_;                                                   \
    })

SHOWN void
undermine_clock_set(int64_t new_speed, int64_t new_origin)
{
    speed = new_speed < 1 ? 1 : new_speed;
    origin = new_origin;
}

__attribute__((constructor)) static void
read_environment(void)
{
    const char *text = getenv("UNDERMINE_CLOCK");
    long long new_speed, new_origin;
    if (text != NULL && sscanf(text, "%lld %lld", &new_speed, &new_origin) == 2) {
        undermine_clock_set(new_speed, new_origin);
    }
}

/* --- times */

static int64_t
to_ns(const struct timespec *t)
{
    if (t->tv_sec > LONGEST / SECOND || t->tv_sec < -LONGEST / SECOND) {
        return t->tv_sec < 0 ? -LONGEST : LONGEST;
    }
    return (int64_t)t->tv_sec * SECOND + t->tv_nsec;
}

static struct timespec
to_timespec(int64_t ns)
{
    struct timespec t = {ns / SECOND, ns % SECOND};
    if (t.tv_nsec < 0) {
        t.tv_nsec += SECOND;
        t.tv_sec--;
    }
    return t;
}

static struct timeval
to_timeval(int64_t ns)
{
    struct timespec t = to_timespec(ns);
    return (struct timeval){t.tv_sec, t.tv_nsec / 1000};
}

static int64_t
timeval_ns(const struct timeval *t)
{
    struct timespec same = {t->tv_sec, (long)t->tv_usec * 1000};
    return to_ns(&same);
}

static int64_t
true_now(clockid_t clock)
{
    struct timespec now;
    return REAL(clock_gettime)(clock, &now) == 0 ? to_ns(&now) : 0;
}

static int64_t
shift(void)
{
    return speed == 1 ? 0 : (speed - 1) * (true_now(CLOCK_MONOTONIC) - origin);
}

/* A length of the target's time in true time, rounded up: a wait must not become a busy loop. */
static int64_t
shorter(int64_t ns)
{
    return ns <= 0 || ns >= LONGEST ? ns : (ns + speed - 1) / speed;
}

static int64_t
longer(int64_t ns)
{
    return ns >= LONGEST / speed ? LONGEST : ns * speed;
}

static int
is_shifted(clockid_t clock)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_BOOTTIME:
    case CLOCK_TAI:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_BOOTTIME_ALARM:
        return speed != 1;
    default:
        return 0;
    }
}

/* A deadline of the target's clock, as one of the true clock. */
static struct timespec
true_deadline(clockid_t clock, const struct timespec *deadline)
{
    int64_t now = true_now(clock), left = to_ns(deadline) - (now + shift());
    return to_timespec(now + shorter(left));
}

/* The clock of a deadline whose clock the caller has set elsewhere: decades lie between the two. */
static clockid_t
clock_of(const struct timespec *deadline)
{
    int64_t middle = (true_now(CLOCK_REALTIME) + true_now(CLOCK_MONOTONIC)) / 2;
    return to_ns(deadline) < middle ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

/* --- reading clocks */

SHOWN int
clock_gettime(clockid_t clock, struct timespec *found)
{
    int status = REAL(clock_gettime)(clock, found);
    if (status == 0 && is_shifted(clock)) {
        *found = to_timespec(to_ns(found) + shift());
    }
    return status;
}

SHOWN int
gettimeofday(struct timeval *restrict found, void *restrict zone)
{
    int status = REAL(gettimeofday)(found, zone);
    if (status == 0 && found != NULL && speed != 1) {
        *found = to_timeval(timeval_ns(found) + shift());
    }
    return status;
}

SHOWN time_t
time(time_t *found)
{
    time_t now = (true_now(CLOCK_REALTIME) + shift()) / SECOND;
    if (found != NULL) {
        *found = now;
    }
    return now;
}

SHOWN int
timespec_get(struct timespec *found, int base)
{
    int given = REAL(timespec_get)(found, base);
    if (given == TIME_UTC && speed != 1) {
        *found = to_timespec(to_ns(found) + shift());
    }
    return given;
}

/* --- sleeping */

SHOWN int
clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left)
{
    if (!is_shifted(clock) || wanted == NULL) {
        return REAL(clock_nanosleep)(clock, flags, wanted, left);
    }
    if (flags & TIMER_ABSTIME) {
        struct timespec deadline = true_deadline(clock, wanted);
        return REAL(clock_nanosleep)(clock, flags, &deadline, left);
    }
    struct timespec length = to_timespec(shorter(to_ns(wanted)));
    int status = REAL(clock_nanosleep)(clock, flags, &length, left);
    if (status == EINTR && left != NULL) {
        *left = to_timespec(longer(to_ns(left)));
    }
    return status;
}

SHOWN int
nanosleep(const struct timespec *wanted, struct timespec *left)
{
    if (speed == 1 || wanted == NULL) {
        return REAL(nanosleep)(wanted, left);
    }
    struct timespec length = to_timespec(shorter(to_ns(wanted)));
    int status = REAL(nanosleep)(&length, left);
    if (status != 0 && errno == EINTR && left != NULL) {
        *left = to_timespec(longer(to_ns(left)));
    }
    return status;
}

SHOWN unsigned int
sleep(unsigned int seconds)
{
    struct timespec wanted = {seconds, 0}, left = {0, 0};
    return nanosleep(&wanted, &left) == 0 ? 0 : (unsigned int)left.tv_sec + (left.tv_nsec > 0);
}

SHOWN int
usleep(useconds_t microseconds)
{
    struct timespec wanted = to_timespec((int64_t)microseconds * 1000);
    return nanosleep(&wanted, NULL);
}

/* --- waiting for descriptors */

SHOWN int
ppoll(struct pollfd *all, nfds_t count, const struct timespec *limit, const sigset_t *signals)
{
    if (speed == 1 || limit == NULL) {
        return REAL(ppoll)(all, count, limit, signals);
    }
    struct timespec length = to_timespec(shorter(to_ns(limit)));
    return REAL(ppoll)(all, count, &length, signals);
}

SHOWN int
poll(struct pollfd *all, nfds_t count, int limit_ms)
{
    if (speed == 1 || limit_ms <= 0) {
        return REAL(poll)(all, count, limit_ms);
    }
    struct timespec limit = to_timespec((int64_t)limit_ms * 1000000);
    return ppoll(all, count, &limit, NULL);
}

/* The names of the same functions in programs that were compiled with _FORTIFY_SOURCE. */
SHOWN int
__poll_chk(struct pollfd *all, nfds_t count, int limit_ms, size_t size)
{
    if (size / sizeof(struct pollfd) < count) {
        abort();
    }
    return poll(all, count, limit_ms);
}

SHOWN int
__ppoll_chk(struct pollfd *all, nfds_t count, const struct timespec *limit, const sigset_t *signals, size_t size)
{
    if (size / sizeof(struct pollfd) < count) {
        abort();
    }
    return ppoll(all, count, limit, signals);
}

SHOWN int
select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict bad, struct timeval *restrict limit)
{
    if (speed == 1 || limit == NULL) {
        return REAL(select)(count, in, out, bad, limit);
    }
    int64_t length = shorter(timeval_ns(limit));
    struct timeval left = to_timeval(length + (length > 0 ? 999 : 0));
    int found = REAL(select)(count, in, out, bad, &left);
    *limit = to_timeval(longer(timeval_ns(&left)));
    return found;
}

SHOWN int
pselect(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict bad, const struct timespec *restrict limit,
        const sigset_t *restrict signals)
{
    if (speed == 1 || limit == NULL) {
        return REAL(pselect)(count, in, out, bad, limit, signals);
    }
    struct timespec length = to_timespec(shorter(to_ns(limit)));
    return REAL(pselect)(count, in, out, bad, &length, signals);
}

/* In nanoseconds where the kernel can. */
static int
epoll_wait_ns(int fd, struct epoll_event *found, int most, int64_t ns, const sigset_t *signals)
{
    typedef int (*Precise)(int, struct epoll_event *, int, const struct timespec *, const sigset_t *);
    static int has_none;
    Precise precise = has_none ? NULL : (Precise)dlsym(RTLD_NEXT, "epoll_pwait2");
    if (precise != NULL) {
        struct timespec limit = to_timespec(ns);
        int status = precise(fd, found, most, &limit, signals);
        if (status >= 0 || errno != ENOSYS) {
            return status;
        }
        has_none = 1;
    }
    return REAL(epoll_pwait)(fd, found, most, (int)((ns + 999999) / 1000000), signals);
}

SHOWN int
epoll_pwait(int fd, struct epoll_event *found, int most, int limit_ms, const sigset_t *signals)
{
    if (speed == 1 || limit_ms <= 0) {
        return REAL(epoll_pwait)(fd, found, most, limit_ms, signals);
    }
    return epoll_wait_ns(fd, found, most, shorter((int64_t)limit_ms * 1000000), signals);
}

SHOWN int
epoll_wait(int fd, struct epoll_event *found, int most, int limit_ms)
{
    if (speed == 1 || limit_ms <= 0) {
        return REAL(epoll_wait)(fd, found, most, limit_ms);
    }
    return epoll_wait_ns(fd, found, most, shorter((int64_t)limit_ms * 1000000), NULL);
}

SHOWN int
epoll_pwait2(int fd, struct epoll_event *found, int most, const struct timespec *limit, const sigset_t *signals)
{
    if (limit == NULL) {
        return REAL(epoll_pwait)(fd, found, most, -1, signals);
    }
    return epoll_wait_ns(fd, found, most, shorter(to_ns(limit)), signals);
}

SHOWN int
sigtimedwait(const sigset_t *restrict signals, siginfo_t *restrict found, const struct timespec *restrict limit)
{
    if (speed == 1 || limit == NULL) {
        return REAL(sigtimedwait)(signals, found, limit);
    }
    struct timespec length = to_timespec(shorter(to_ns(limit)));
    return REAL(sigtimedwait)(signals, found, &length);
}

/* --- waiting for other threads */

/* An older version of this function, for programs of last century, would come first. */
static int (*
real_cond_timedwait(void))(pthread_cond_t *, pthread_mutex_t *, const struct timespec *)
{
    static int (*found)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (found == NULL) {
        void *newer = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
        found = newer != NULL ? newer : dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    }
    return found;
}

SHOWN int
pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                       const struct timespec *restrict until)
{
    if (speed == 1) {
        return real_cond_timedwait()(condition, mutex, until);
    }
    struct timespec deadline = true_deadline(clock_of(until), until);
    return real_cond_timedwait()(condition, mutex, &deadline);
}

#define WAIT_UNTIL(name, parameters, arguments, clock)                             \
    SHOWN int name parameters                                                      \
    {                                                                              \
        struct timespec deadline = speed == 1 ? *until : true_deadline(clock, until); \
        return REAL(name) arguments;                                               \
    }

WAIT_UNTIL(pthread_cond_clockwait,
           (pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
            const struct timespec *restrict until),
           (condition, mutex, clock, &deadline), clock)
WAIT_UNTIL(sem_timedwait, (sem_t *restrict semaphore, const struct timespec *restrict until), (semaphore, &deadline),
           CLOCK_REALTIME)
WAIT_UNTIL(sem_clockwait, (sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict until),
           (semaphore, clock, &deadline), clock)
WAIT_UNTIL(pthread_mutex_timedlock, (pthread_mutex_t *restrict mutex, const struct timespec *restrict until),
           (mutex, &deadline), CLOCK_REALTIME)
WAIT_UNTIL(pthread_mutex_clocklock, (pthread_mutex_t *restrict mutex, clockid_t clock, const struct timespec *restrict until),
           (mutex, clock, &deadline), clock)
WAIT_UNTIL(pthread_rwlock_timedrdlock, (pthread_rwlock_t *restrict lock, const struct timespec *restrict until),
           (lock, &deadline), CLOCK_REALTIME)
WAIT_UNTIL(pthread_rwlock_timedwrlock, (pthread_rwlock_t *restrict lock, const struct timespec *restrict until),
           (lock, &deadline), CLOCK_REALTIME)
WAIT_UNTIL(pthread_timedjoin_np, (pthread_t thread, void **result, const struct timespec *until),
           (thread, result, &deadline), CLOCK_REALTIME)

/* --- timers */

SHOWN unsigned int
alarm(unsigned int seconds)
{
    struct itimerval wanted = {{0, 0}, {seconds, 0}}, before = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &wanted, &before);
    return (unsigned int)before.it_value.tv_sec + (before.it_value.tv_usec > 0);
}

/* A timer that is not off must not become 0, which turns it off. */
static struct timeval
shorter_timeval(const struct timeval *t)
{
    int64_t ns = shorter(timeval_ns(t));
    return to_timeval(ns > 0 && ns < 1000 ? 1000 : ns);
}

SHOWN int
setitimer(__itimer_which_t which, const struct itimerval *restrict wanted, struct itimerval *restrict before)
{
    if (speed == 1 || which != ITIMER_REAL || wanted == NULL) {
        return REAL(setitimer)(which, wanted, before);
    }
    struct itimerval real = {shorter_timeval(&wanted->it_interval), shorter_timeval(&wanted->it_value)};
    int status = REAL(setitimer)(which, &real, before);
    if (status == 0 && before != NULL) {
        before->it_interval = to_timeval(longer(timeval_ns(&before->it_interval)));
        before->it_value = to_timeval(longer(timeval_ns(&before->it_value)));
    }
    return status;
}

SHOWN int
getitimer(__itimer_which_t which, struct itimerval *found)
{
    int status = REAL(getitimer)(which, found);
    if (status == 0 && which == ITIMER_REAL && speed != 1) {
        found->it_interval = to_timeval(longer(timeval_ns(&found->it_interval)));
        found->it_value = to_timeval(longer(timeval_ns(&found->it_value)));
    }
    return status;
}

static struct itimerspec
real_timer(const struct itimerspec *wanted, int is_absolute)
{
    struct itimerspec real = {to_timespec(shorter(to_ns(&wanted->it_interval))), wanted->it_value};
    int64_t value = to_ns(&wanted->it_value);
    if (value != 0) {
        real.it_value = is_absolute ? true_deadline(clock_of(&wanted->it_value), &wanted->it_value)
                                    : to_timespec(shorter(value));
    }
    return real;
}

static void
show_timer(struct itimerspec *found)
{
    if (found != NULL) {
        found->it_interval = to_timespec(longer(to_ns(&found->it_interval)));
        found->it_value = to_timespec(longer(to_ns(&found->it_value)));
    }
}

SHOWN int
timer_settime(timer_t timer, int flags, const struct itimerspec *restrict wanted, struct itimerspec *restrict before)
{
    if (speed == 1 || wanted == NULL) {
        return REAL(timer_settime)(timer, flags, wanted, before);
    }
    struct itimerspec real = real_timer(wanted, flags & TIMER_ABSTIME);
    int status = REAL(timer_settime)(timer, flags, &real, before);
    if (status == 0) {
        show_timer(before);
    }
    return status;
}

SHOWN int
timerfd_settime(int fd, int flags, const struct itimerspec *wanted, struct itimerspec *before)
{
    if (speed == 1 || wanted == NULL) {
        return REAL(timerfd_settime)(fd, flags, wanted, before);
    }
    struct itimerspec real = real_timer(wanted, flags & TFD_TIMER_ABSTIME);
    int status = REAL(timerfd_settime)(fd, flags, &real, before);
    if (status == 0) {
        show_timer(before);
    }
    return status;
}

SHOWN int
timer_gettime(timer_t timer, struct itimerspec *found)
{
    int status = REAL(timer_gettime)(timer, found);
    if (status == 0 && speed != 1) {
        show_timer(found);
    }
    return status;
}

SHOWN int
timerfd_gettime(int fd, struct itimerspec *found)
{
    int status = REAL(timerfd_gettime)(fd, found);
    if (status == 0 && speed != 1) {
        show_timer(found);
    }
    return status;
}

/* --- time limits of sockets */

static int
is_limit(int level, int option)
{
    return speed != 1 && level == SOL_SOCKET && (option == SO_RCVTIMEO || option == SO_SNDTIMEO);
}

SHOWN int
setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    if (!is_limit(level, option) || size < sizeof(struct timeval)) {
        return REAL(setsockopt)(fd, level, option, value, size);
    }
    struct timeval limit = shorter_timeval(value);
    return REAL(setsockopt)(fd, level, option, &limit, sizeof(limit));
}

SHOWN int
getsockopt(int fd, int level, int option, void *restrict value, socklen_t *restrict size)
{
    int status = REAL(getsockopt)(fd, level, option, value, size);
    if (status == 0 && is_limit(level, option) && *size >= sizeof(struct timeval)) {
        struct timeval limit = to_timeval(longer(timeval_ns(value)));
        memcpy(value, &limit, sizeof(limit));
    }
    return status;
}

/* --- times of files: those since ORIGIN follow the clock */

static int64_t
origin_of_files(void)
{
    return origin + true_now(CLOCK_REALTIME) - true_now(CLOCK_MONOTONIC);
}

static void
show_time(struct timespec *t, int64_t since)
{
    int64_t ns = to_ns(t);
    if (ns > since) {
        *t = to_timespec(since + longer(ns - since));
    }
}

static int
shown_stat(int status, struct stat *found)
{
    if (status == 0 && speed != 1) {
        int64_t since = origin_of_files();
        show_time(&found->st_atim, since);
        show_time(&found->st_mtim, since);
        show_time(&found->st_ctim, since);
    }
    return status;
}

#define STAT(name, type, parameters, arguments)                \
    SHOWN int name parameters                                  \
    {                                                          \
        return shown_stat(REAL(name) arguments, (struct stat *)found); \
    }

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "stat and stat64 differ here");
STAT(stat, stat, (const char *restrict path, struct stat *restrict found), (path, found))
STAT(lstat, stat, (const char *restrict path, struct stat *restrict found), (path, found))
STAT(fstat, stat, (int fd, struct stat *found), (fd, found))
STAT(fstatat, stat, (int fd, const char *restrict path, struct stat *restrict found, int flags), (fd, path, found, flags))
STAT(stat64, stat64, (const char *restrict path, struct stat64 *restrict found), (path, found))
STAT(lstat64, stat64, (const char *restrict path, struct stat64 *restrict found), (path, found))
STAT(fstat64, stat64, (int fd, struct stat64 *found), (fd, found))
STAT(fstatat64, stat64, (int fd, const char *restrict path, struct stat64 *restrict found, int flags),
     (fd, path, found, flags))

static void
show_statx(struct statx_timestamp *t, int64_t since)
{
    struct timespec same = {t->tv_sec, t->tv_nsec};
    show_time(&same, since);
    t->tv_sec = same.tv_sec;
    t->tv_nsec = same.tv_nsec;
}

SHOWN int
statx(int fd, const char *restrict path, int flags, unsigned int mask, struct statx *restrict found)
{
    int status = REAL(statx)(fd, path, flags, mask, found);
    if (status == 0 && speed != 1) {
        int64_t since = origin_of_files();
        show_statx(&found->stx_atime, since);
        show_statx(&found->stx_mtime, since);
        show_statx(&found->stx_ctime, since);
        show_statx(&found->stx_btime, since);
    }
    return status;
}

/* Times that the program sets, back to true ones. */
static const struct timespec *
true_times(const struct timespec given[2], struct timespec found[2])
{
    if (given == NULL || speed == 1) {
        return given;
    }
    int64_t since = origin_of_files();
    for (int i = 0; i < 2; i++) {
        found[i] = given[i];
        if (given[i].tv_nsec != UTIME_NOW && given[i].tv_nsec != UTIME_OMIT && to_ns(&given[i]) > since) {
            found[i] = to_timespec(since + shorter(to_ns(&given[i]) - since));
        }
    }
    return found;
}

SHOWN int
utimensat(int fd, const char *path, const struct timespec times[2], int flags)
{
    struct timespec real[2];
    return REAL(utimensat)(fd, path, true_times(times, real), flags);
}

SHOWN int
futimens(int fd, const struct timespec times[2])
{
    struct timespec real[2];
    return REAL(futimens)(fd, true_times(times, real));
}
