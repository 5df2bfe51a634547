package namespace

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// nsGetUserns is NS_GET_USERNS of ioctl_ns(2).
const nsGetUserns = 0xb701

func assert() error {
	if pid := os.Getpid(); pid != 1 {
		return fmt.Errorf("not alone in a pid namespace (pid %d)", pid)
	}
	maps, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return err
	}
	if f := bytes.Fields(maps); len(f) < 3 || string(f[2]) == "4294967295" {
		return errors.New("in the host's user namespace")
	}
	mnt, err := os.Open("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	defer mnt.Close()
	owner, err := unix.IoctlRetInt(int(mnt.Fd()), nsGetUserns)
	if err != nil {
		return fmt.Errorf("cannot tell who owns the mount namespace: %w", err)
	}
	defer unix.Close(owner)
	var mine, its unix.Stat_t
	if err := unix.Stat("/proc/self/ns/user", &mine); err != nil {
		return err
	}
	if err := unix.Fstat(owner, &its); err != nil {
		return err
	}
	if mine.Dev != its.Dev || mine.Ino != its.Ino {
		return errors.New("the mount namespace belongs to another user namespace")
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
