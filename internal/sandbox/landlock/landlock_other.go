//go:build !linux

package landlock

import "fmt"

func abi() (int, error) {
	return 0, fmt.Errorf("%w: this is not Linux", ErrAbsent)
}

func restrict([]Rule, Options) (Result, error) {
	return Result{}, fmt.Errorf("%w: this is not Linux", ErrAbsent)
}
