package rowsec

import "testing"

// FuzzParseTree reads whatever comes, and what it has read holds together.
func FuzzParseTree(f *testing.F) {
	for _, text := range []string{
		"", "{", "}", "(", "[ 1", `\\`, "{A :b", "{A :b {C} :d (1 {E :f <>}) :g [ 1 2 ]}",
		`{CONST :consttype 16 :constisnull false :constvalue 1 [ 1 0 0 0 0 0 0 0 ]}`,
		`{SUBLINK :subLinkType 4 :subselect {QUERY :targetList ({TARGETENTRY :expr {FUNCEXPR :funcid 7 :args <>} :resname a\\ \\)b})}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseTree(text)
		if err != nil || n == nil {
			return
		}
		n.each(0, func(n *node, depth int) bool {
			if n == nil || depth < 0 {
				t.Errorf("%q has a node that is none", text)
			}
			return true
		})
		s := &schema{me: map[int64]bool{7: true}}
		n.isTrue()
		n.readsOutside()
		n.ties(s.isGate)
		s.forgeable(n)
	})
}

// TestParseTree reads what PostgreSQL stores of true, and of (select f()).
func TestParseTree(t *testing.T) {
	n, err := parseTree(`{CONST :consttype 16 :consttypmod -1 :constcollid 0 :constlen 1 :constbyval true :constisnull false :location 33 :constvalue 1 [ 1 0 0 0 0 0 0 0 ]}`)
	if err != nil || !n.isTrue() {
		t.Errorf("true is read as %+v, %v", n, err)
	}
	n, err = parseTree(`{SUBLINK :subLinkType 4 :subselect {QUERY :cteList <> :targetList ({TARGETENTRY :expr {FUNCEXPR :funcid 7 :args <> :location 51} :resno 1 :resname a\ \}b})}}`)
	if err != nil || !n.tells(map[int64]bool{7: true}) || n.tells(map[int64]bool{8: true}) || n.readsOutside() {
		t.Errorf("(select f()) is read as %+v, %v", n, err)
	}
	for _, text := range []string{"{", "{A :b (", "{A b}", "{A :b {C}", "{A} {B}"} {
		if n, err := parseTree(text); err == nil {
			t.Errorf("%q is read as %+v", text, n)
		}
	}
}
