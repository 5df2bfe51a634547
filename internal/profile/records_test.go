package profile

import (
	"testing"

	"bourn/internal/policy"
)

func TestParseRecords(t *testing.T) {
	for text, want := range map[string]policy.Records{"": policy.RecordsNone, "records: read\n": policy.RecordsRead, "records: \"write\"\n": policy.RecordsWrite} {
		got, err := Parse("p.yaml", []byte(head+text))
		if err != nil || got.Records != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"records: none\n":   `3:10: unknown records "none"`,
		"records: wirte\n":  `3:10: unknown records "wirte"; did you mean "write"?`,
		"records:\n":        `3:9: records has no value`,
		"records: true\n":   `3:10: records must be read or write, not true or false without quotes`,
		"records: [read]\n": `3:10: records must be read or write, not a list`,
	} {
		_, err := Parse("p.yaml", []byte(head+text))
		checkErrors(t, text, err, []string{want})
	}
}

// A profile that is written for a new agent has what it was given.
func TestTemplateRecords(t *testing.T) {
	text, err := Template(Draft{Agent: "a", Records: policy.RecordsWrite})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Parse("p.yaml", text); err != nil || p.Records != policy.RecordsWrite {
		t.Errorf("a draft: %v, %v", p, err)
	}
}
