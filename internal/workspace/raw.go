package workspace

import (
	"bytes"
	"encoding/json"
)

// Raw is a result as it came, for whoever hands it on before it is read.
type Raw struct {
	JSON    json.RawMessage
	Content []byte // what travelled apart from it
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Raw) UnmarshalJSON(data []byte) error {
	r.JSON = bytes.Clone(data)
	return nil
}

func (r *Raw) attach(content []byte) { r.Content = content }

// Into reads the result into a value of its own type.
func (r Raw) Into(result any) error {
	if err := json.Unmarshal(r.JSON, result); err != nil {
		return err
	}
	if to, ok := result.(interface{ attach([]byte) }); ok {
		to.attach(r.Content)
	}
	return nil
}
