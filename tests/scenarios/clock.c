/* A library to be preloaded where scenarios are played against the binary: time that passes in a scenario.
 *
 * The harness tells, in the file named by SHIFTCLOCK_FILE, by how many nanoseconds the wall clock is off: first the date
 * of the scenario, and later more as time passes in it. What passes is passed by the monotonic clock, too, as it would
 * be on any machine; a server whose caches go by that clock could not be shown to forget anything else. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t unmoved;
static const volatile int64_t *offset = &unmoved;
static int64_t date;

__attribute__((constructor)) static void map_offset(void)
{
	const char *path = getenv("SHIFTCLOCK_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *mapped = mmap(NULL, sizeof(unmoved), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (mapped == MAP_FAILED)
		return;
	offset = mapped;
	date = *offset;
}

static void move_by(struct timespec *now, int64_t nanos)
{
	nanos += now->tv_nsec;
	now->tv_sec += nanos / 1000000000;
	now->tv_nsec = nanos % 1000000000;
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
		move_by(now, *offset);
	else if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME)
		move_by(now, *offset - date);
	return 0;
}
