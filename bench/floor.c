//go:build ignore

/*
 * floor PROGRAM [ARG...]: what a sandbox with its own user, mount, pid, network,
 * IPC and UTS namespaces pays at the very least. It clones, maps the user to
 * itself, makes mounts private, mounts a fresh /proc, brings lo up, forks an init
 * and executes PROGRAM. It isolates nothing worth the name: only for measuring.
 *
 * Before the first mount it insists on being pid 1 of a new pid namespace and in
 * another mount namespace than its parent; started any other way it does nothing.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	_exit(125);
}

static void put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die(file);
	close(fd);
}

static void map_self(unsigned uid, unsigned gid)
{
	char line[64];

	put("/proc/self/setgroups", "deny");
	snprintf(line, sizeof line, "%u %u 1\n", uid, uid);
	put("/proc/self/uid_map", line);
	snprintf(line, sizeof line, "%u %u 1\n", gid, gid);
	put("/proc/self/gid_map", line);
}

static void loopback_up(void)
{
	struct ifreq req = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &req) < 0)
		die("lo");
	close(fd);
}

static int exit_of(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int init(char **argv, const struct stat *parents_mounts)
{
	struct stat mine;
	int status, result = 125;
	pid_t child, ended;

	if (getpid() != 1 || stat("/proc/self/ns/mnt", &mine) < 0 ||
	    (mine.st_dev == parents_mounts->st_dev && mine.st_ino == parents_mounts->st_ino)) {
		fputs("floor: not in namespaces of its own\n", stderr);
		_exit(125);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		die("private mounts");
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		die("/proc");
	loopback_up();
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		execv(argv[0], argv);
		die(argv[0]);
	}
	while ((ended = wait(&status)) > 0)
		if (ended == child)
			result = exit_of(status);
	return result;
}

int main(int argc, char **argv)
{
	const long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
	unsigned uid = getuid(), gid = getgid();
	struct stat mounts;
	int status;
	pid_t pid;

	if (argc < 2) {
		fputs("usage: floor PROGRAM [ARG...]\n", stderr);
		return 2;
	}
	if (stat("/proc/self/ns/mnt", &mounts) < 0)
		die("/proc/self/ns/mnt");
	pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	if (pid < 0)
		die("clone");
	if (pid == 0) {
		map_self(uid, gid);
		_exit(init(argv + 1, &mounts));
	}
	if (waitpid(pid, &status, 0) != pid)
		die("wait");
	return exit_of(status);
}
