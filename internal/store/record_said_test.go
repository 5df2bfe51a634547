package store

import (
	"errors"
	"fmt"
	"testing"

	"bourn"
)

// A refusal says its code once, and keeps the cause for the log.
func TestRefused(t *testing.T) {
	cause := errors.New("cause")
	for _, test := range []struct {
		err  error
		want string
	}{
		{wrapped{fmt.Errorf("%w: the database refuses it", bourn.ErrDenied), cause}, "denied: cannot make the record: the database refuses it"},
		{wrapped{fmt.Errorf("%w: a value is too large", bourn.ErrInvalid), cause}, "invalid: cannot make the record: a value is too large"},
		{cause, "cannot make the record: cause"},
	} {
		if err := refused("make the record", test.err); err.Error() != test.want || !errors.Is(err, cause) {
			t.Errorf("%q, with its cause %t; want %q", err, errors.Is(err, cause), test.want)
		}
	}
}

func TestSeenBy(t *testing.T) {
	for _, test := range []struct {
		said   Visibility
		circle *ID
		want   Visibility // "" for refused
	}{
		{"", nil, Private}, {"", &ID{}, Circle}, {Private, nil, Private}, {Company, nil, Company}, {Circle, &ID{}, Circle},
		{Circle, nil, ""}, {Private, &ID{}, ""}, {Company, &ID{}, ""},
	} {
		got, err := seenBy(test.said, test.circle)
		if got != test.want || (err != nil) != (test.want == "") || err != nil && !errors.Is(err, bourn.ErrInvalid) {
			t.Errorf("%q with a circle %t: %q, %v", test.said, test.circle != nil, got, err)
		}
	}
}
