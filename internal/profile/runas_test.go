package profile

import (
	"strings"
	"testing"
)

func TestRunAs(t *testing.T) {
	for text, want := range map[string]string{"run_as: builder": "builder", `run_as: "1001"`: "1001", "run_as: 1001": "1001"} {
		p, err := Parse("p", []byte("version: 1\nagent: a\n"+text+"\n"))
		if err != nil || p.RunAs != want {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	for text, said := range map[string]string{"run_as: root": "cannot be root", "run_as: 0": "cannot be root", `run_as: ""`: "is empty", "run_as:": "has no value",
		"run_as: 4294967295": "too large", "run_as: -1": "must be", "run_as: 1.5": "must be", "run_as: [a]": "must be", "run_as: true": "must be", "run_as: |\n  a": "on one line"} {
		_, err := Parse("p", []byte("version: 1\nagent: a\n"+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v, want %q", text, err, said)
		}
	}
}

func TestTemplateRunAs(t *testing.T) {
	text, err := Template(Draft{Agent: "a", RunAs: "1001"})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Parse("p", text); err != nil || p.RunAs != "1001" {
		t.Errorf("%+v, %v", p, err)
	}
}
