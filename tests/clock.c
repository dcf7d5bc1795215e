/* A library to be preloaded: the clocks of a process, moved by a test.
 *
 * The file named by SHIFTCLOCK_FILE holds two 64-bit numbers of nanoseconds, by which the wall clock and the monotonic
 * clock are off. It is mapped, so that a test moves the clocks by writing to it.
 *
 * Who plays the field's scenarios tells only the first one: the date of the scenario, and later more as time passes in
 * it. Built with TIME_PASSES_ON_THE_WALL, what passes so is passed by the monotonic clock, too, as it would be on any
 * machine; a server whose caches go by that clock could not be shown to forget anything else.
 *
 * Built with WAITS_BY_MONOTONIC_TIME, it moves CLOCK_BOOTTIME, but not CLOCK_MONOTONIC. Threads wait for a moment of
 * the latter, and the kernel, which knows nothing of the shift, would let them wait for as long as the shift. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t unmoved[2];
static const volatile int64_t *nanos = unmoved;
static int64_t date;

__attribute__((constructor)) static void map_offsets(void)
{
	const char *path = getenv("SHIFTCLOCK_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *mapped = mmap(NULL, sizeof(unmoved), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (mapped == MAP_FAILED)
		return;
	nanos = mapped;
	date = nanos[0];
}

static int64_t passed(void)
{
#ifdef TIME_PASSES_ON_THE_WALL
	return nanos[0] - date;
#else
	return nanos[1];
#endif
}

static void move_by(struct timespec *now, int64_t by)
{
	by += now->tv_nsec;
	now->tv_sec += by / 1000000000;
	now->tv_nsec = by % 1000000000;
	if (now->tv_nsec < 0) {
		now->tv_nsec += 1000000000;
		now->tv_sec--;
	}
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int failed = (int)syscall(SYS_clock_gettime, clock, now);
	if (failed)
		return failed;
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		move_by(now, nanos[0]);
	else if (clock == CLOCK_BOOTTIME)
		move_by(now, passed());
#ifndef WAITS_BY_MONOTONIC_TIME
	else if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)
		move_by(now, passed());
#endif
	return 0;
}
