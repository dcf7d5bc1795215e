/* A library to be preloaded: the clocks of a process, moved by a test.
 *
 * The file named by SHIFTCLOCK_FILE holds two 64-bit numbers of seconds, which are added to the wall clock
 * and to the monotonic clock. It is mapped, so that a test moves the clocks by writing to it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t unmoved[2];
static const volatile int64_t *seconds = unmoved;

__attribute__((constructor)) static void map_offsets(void)
{
	const char *path = getenv("SHIFTCLOCK_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *mapped = mmap(NULL, sizeof(unmoved), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (mapped != MAP_FAILED)
		seconds = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int failed = (int)syscall(SYS_clock_gettime, clock, now);
	if (failed)
		return failed;
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		now->tv_sec += seconds[0];
	else if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME)
		now->tv_sec += seconds[1];
	return 0;
}
