package difftest

import "errors"

func (e *engine) restart(t *trial) (verdict, error) {
	return verdict{}, errors.New("not yet")
}
