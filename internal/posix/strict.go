package posix

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"bourn"
)

// maxFile bounds what is read of a JSON file, in bytes: thousands of people fit many times.
const maxFile = 16 << 20

// jsonKeys are the keys of every type that is read from a file. encoding/json takes "UID"
// for "uid", so the exact spelling is checked against this list first.
var jsonKeys = map[string]bool{
	"version": true, "range": true, "first": true, "last": true, "people": true, "circles": true, "tombstones": true,
	"id": true, "member": true, "name": true, "uid": true, "gid": true, "emails": true, "accounts": true, "issuer": true,
	"subject": true, "removed": true, "members": true, "kind": true, "number": true,
	"workspace": true, "service": true, "shared": true, "groups": true, "active": true, "revoked": true, "person": true, "circle": true,
}

// decodeStrict decodes one JSON value: each key known, spelled exactly and once, nothing
// after it. Errors are ErrInvalid.
func decodeStrict(data []byte, into any) error {
	if len(data) > maxFile {
		return fmt.Errorf("%w: larger than %d bytes", bourn.ErrInvalid, maxFile)
	}
	tokens := json.NewDecoder(bytes.NewReader(data))
	tokens.UseNumber()
	if err := checkKeys(tokens, "", 0); err != nil {
		return fmt.Errorf("%w: %w", bourn.ErrInvalid, err)
	}
	if _, err := tokens.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows the value", bourn.ErrInvalid)
	}
	values := json.NewDecoder(bytes.NewReader(data))
	values.DisallowUnknownFields()
	if err := values.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", bourn.ErrInvalid, err)
	}
	return nil
}

// maxNesting is deeper than any file here.
const maxNesting = 8

// checkKeys reads one value and refuses keys that are unknown or stand twice.
func checkKeys(d *json.Decoder, at string, depth int) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	delim, nested := token.(json.Delim)
	if !nested {
		if token == nil {
			return fmt.Errorf("%s is null", at)
		}
		return nil
	}
	if depth == maxNesting {
		return fmt.Errorf("%s is nested too deeply", at)
	}
	seen := map[string]bool{}
	for i := 0; d.More(); i++ {
		below := at + "[" + strconv.Itoa(i) + "]"
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			name, _ := key.(string)
			if below = name; at != "" {
				below = at + "." + name
			}
			if !jsonKeys[name] {
				return fmt.Errorf("the key %q is not known", below)
			}
			if seen[name] {
				return fmt.Errorf("the key %q stands twice", below)
			}
			seen[name] = true
		}
		if err := checkKeys(d, below, depth+1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// encode returns v as a file's content.
func encode(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}
