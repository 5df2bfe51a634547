package bourn_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"bourn/api"
	"bourn/internal/review"
)

// TestReceiptsPage holds the page about receipts against what a receipt has and which
// commands of git count as commits.
func TestReceiptsPage(t *testing.T) {
	text, err := os.ReadFile("docs/receipts.md")
	if err != nil {
		t.Fatal(err)
	}
	var verbs []string
	for _, v := range review.CommitVerbs() {
		verbs = append(verbs, "`git "+v+"`")
	}
	if want := strings.Join(verbs, ", ") + "."; !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
		t.Errorf("the page does not say %s", want)
	}
	shown := map[string]bool{}
	for _, r := range tables(t, "docs/receipts.md", "Key", "Means") {
		for _, key := range codes(r["Key"]) {
			shown[key] = true
		}
	}
	for _, key := range jsonKeys() {
		if !shown[key] {
			t.Errorf("the page does not tell of %s", key)
		}
		delete(shown, key)
	}
	for key := range shown {
		t.Errorf("no receipt has the key %s", key)
	}
}

// jsonKeys are the keys of a receipt.
func jsonKeys() (all []string) {
	of := reflect.TypeFor[api.Receipt]()
	for i := range of.NumField() {
		key, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		all = append(all, key)
	}
	return all
}
