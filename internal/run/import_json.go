package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"bourn"
)

// A jsonFile is the text of a JSON file, and knows its lines.
type jsonFile struct {
	name string
	src  []byte
}

// A jsonValue is a value of a JSON file with its place.
type jsonValue struct {
	at    int    // the offset of its first byte
	what  string // its type, as a person would say it
	text  string // of text: the text; of everything else: its JSON on one line
	keys  []jsonKey
	items []jsonValue
}

// A jsonKey is a key of an object with its value.
type jsonKey struct {
	name  string
	at    int
	value jsonValue
}

// The types of a jsonValue.
const (
	jsonObject = "an object"
	jsonList   = "a list"
	jsonText   = "text"
	jsonTruth  = "true or false"
	jsonNumber = "a number"
	jsonNull   = "null"
)

// fail returns an error at a byte of the file; columns count characters from 1.
func (f jsonFile) fail(at int, format string, args ...any) error {
	before := f.src[:min(at, len(f.src))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bourn.WithHint(fmt.Errorf("%w: cannot read settings %s:%d:%d: %s", bourn.ErrInvalid, bourn.Printable(f.name),
		bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(before[start:])+1, fmt.Sprintf(format, args...)),
		"mend the file there: nothing was made")
}

// parse reads the file, which holds one object. JSON takes the last of two keys of one
// name, so that nobody sees what became of the first: that is an error here.
func (f jsonFile) parse() (jsonValue, error) {
	if at := invalidUTF8(f.src); at >= 0 {
		return jsonValue{}, f.fail(at, "it is not UTF-8")
	}
	var whole any
	var syntax *json.SyntaxError
	if err := json.Unmarshal(f.src, &whole); errors.As(err, &syntax) {
		return jsonValue{}, f.syntax(int(syntax.Offset), syntax)
	} else if err != nil {
		return jsonValue{}, f.fail(0, "%v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(f.src))
	dec.UseNumber()
	v, err := f.value(dec)
	if err != nil {
		return v, err
	}
	return v, f.want(v, "the file", jsonObject)
}

// syntax is the error for what is no JSON. The offset counts the offending byte, and none
// at the end of the text.
func (f jsonFile) syntax(offset int, err error) error {
	if strings.HasPrefix(err.Error(), "unexpected end") {
		return f.fail(len(f.src), "the JSON ends before it is complete")
	}
	at := max(offset-1, 0)
	bad := f.fail(at, "%v", err)
	if at < len(f.src) && f.src[at] == '/' {
		return bourn.WithHint(bad, "JSON has no comments, and Claude Code reads none: take them out")
	}
	return bad
}

func invalidUTF8(src []byte) int {
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// value reads the next value of a text that is JSON.
func (f jsonFile) value(dec *json.Decoder) (jsonValue, error) {
	v := jsonValue{at: f.next(dec)}
	token, err := dec.Token()
	if err != nil {
		return v, f.fail(v.at, "%v", err)
	}
	switch token := token.(type) {
	case json.Delim:
		v.what = jsonList
		if token == '{' {
			v.what = jsonObject
		}
		err = f.inside(dec, &v)
	case string:
		v.what, v.text = jsonText, token
	case bool:
		v.what = jsonTruth
	case json.Number:
		v.what = jsonNumber
	case nil:
		v.what = jsonNull
	}
	if v.what != jsonText && err == nil {
		var line bytes.Buffer
		err = json.Compact(&line, f.src[v.at:dec.InputOffset()])
		v.text = line.String()
	}
	return v, err
}

// inside reads what an object or a list holds, and its end.
func (f jsonFile) inside(dec *json.Decoder, v *jsonValue) error {
	for dec.More() {
		if v.what == jsonList {
			item, err := f.value(dec)
			if err != nil {
				return err
			}
			v.items = append(v.items, item)
			continue
		}
		name, err := f.value(dec)
		if err != nil {
			return err
		}
		if _, twice := v.find(name.text); twice {
			return f.fail(name.at, "duplicate key %q", name.text)
		}
		value, err := f.value(dec)
		if err != nil {
			return err
		}
		v.keys = append(v.keys, jsonKey{name.text, name.at, value})
	}
	_, err := dec.Token()
	return err
}

// next returns where the next value begins.
func (f jsonFile) next(dec *json.Decoder) int {
	at := int(dec.InputOffset())
	return at + len(f.src[at:]) - len(bytes.TrimLeft(f.src[at:], " \t\r\n,:"))
}

func (v jsonValue) find(name string) (jsonValue, bool) {
	for _, k := range v.keys {
		if k.name == name {
			return k.value, true
		}
	}
	return jsonValue{}, false
}

// want returns an error for a value of another type.
func (f jsonFile) want(v jsonValue, where, what string) error {
	if v.what != what {
		return f.fail(v.at, "%s must be %s, not %s", where, what, v.what)
	}
	return nil
}

// texts returns the items of a list of text.
func (f jsonFile) texts(v jsonValue, where string) ([]string, error) {
	if err := f.want(v, where, jsonList); err != nil {
		return nil, err
	}
	var out []string
	for _, item := range v.items {
		if err := f.want(item, "an entry of "+where, jsonText); err != nil {
			return nil, err
		}
		out = append(out, item.text)
	}
	return out, nil
}
