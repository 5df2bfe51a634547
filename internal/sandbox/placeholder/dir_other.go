//go:build !linux

package placeholder

import "errors"

var errSystem = errors.New("placeholders need Linux")

func open(string) (*Dir, error)                          { return nil, errSystem }
func (d *Dir) close()                                    {}
func gone(error) bool                                    { return false }
func (d *Dir) sync() error                               { return errSystem }
func (d *Dir) stat(string) (State, error)                { return State{}, errSystem }
func (d *Dir) make(string, bool) (State, error)          { return State{}, errSystem }
func (d *Dir) place(string, string) error                { return errSystem }
func (d *Dir) remove(_, _ string, _ State, _ bool) error { return errSystem }
