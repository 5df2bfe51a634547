package main

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// readProc returns the content of a file that the kernel makes.
func readProc(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readAll(fd, 1<<20)
}

// errTooLarge is of a file with more bytes than its reader takes.
var errTooLarge = errors.New("it is too large")

// readAll returns all that can be read from a descriptor, at most limit bytes.
func readAll(fd, limit int) ([]byte, error) {
	data := make([]byte, 0, 4096)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := unix.Read(fd, data[len(data):cap(data)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case n == 0:
			return data, nil
		}
		if data = data[:len(data)+n]; len(data) > limit {
			return nil, errTooLarge
		}
	}
}

// numbersIn returns the entries of a directory that are numbers.
func numbersIn(name string) ([]int, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var numbers []int
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return numbers, err
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if number, err := strconv.Atoi(name); err == nil {
				numbers = append(numbers, number)
			}
		}
	}
}
