//go:build !linux

package landlock

import "fmt"

type ruleset struct{}

func abi() (int, error) {
	return 0, fmt.Errorf("%w: this is not Linux", ErrAbsent)
}

func makeRuleset([]Rule, Options) (*Ruleset, error) {
	return nil, fmt.Errorf("%w: this is not Linux", ErrAbsent)
}

func (r *ruleset) restrict() (Result, error) {
	return Result{}, fmt.Errorf("%w: this is not Linux", ErrAbsent)
}
