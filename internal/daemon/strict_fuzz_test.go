package daemon

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"bourn/api"
)

// strictly holds the strict format against the standard library's reader, which is lax: what
// the strict one takes, the lax one reads as the same; what it refuses, it refuses in words
// that are all its own.
func strictly(t *testing.T, data []byte) {
	var v api.SaveBoundaries
	err := strictFormat.Unmarshal(data, &v)
	var free any
	freeErr := strictFormat.Unmarshal(data, &free)
	if err == nil {
		var lax api.SaveBoundaries
		d := stdjson.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if laxErr := d.Decode(&lax); laxErr != nil && !strings.Contains(laxErr.Error(), "exceeded max depth") {
			t.Errorf("%q is taken, and nobody else reads it: %v", data, laxErr)
		} else if laxErr == nil && (lax.After != v.After || !sameJSON(lax.Document, v.Document)) {
			t.Errorf("%q is read as %+v, and by others as %+v", data, v, lax)
		}
		if freeErr != nil || !utf8.Valid(data) {
			t.Errorf("%q is taken as one type and not as any: %v", data, freeErr)
		}
		return
	}
	var strict *strictError
	if !errors.As(err, &strict) {
		t.Fatalf("%q: an error of another's: %v", data, err)
	}
	for part := range strings.SplitSeq(strict.at, ".") {
		if !knownNames()[part] && strings.Trim(part, "0123456789") != "" {
			t.Errorf("%q: the place %q holds what was sent", data, strict.at)
		}
	}
	if !strings.HasPrefix(strict.what, "is not valid") && !strings.HasPrefix(strict.what, "has a ") && !strings.HasPrefix(strict.what, "ends too") {
		t.Errorf("%q: %q", data, strict.what)
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	_ = stdjson.Unmarshal(a, &x)
	_ = stdjson.Unmarshal(b, &y)
	return reflect.DeepEqual(x, y)
}
