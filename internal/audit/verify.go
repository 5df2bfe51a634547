package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"bourn"
)

// A Row is an entry as it is kept, with its link.
type Row struct {
	Position int64
	Seq      int64
	ID       string    // as the table's column says
	At       time.Time // likewise; zero is not compared
	Body     []byte
	Hash     Hash
}

// A Kept is a log as it is kept somewhere.
type Kept struct {
	ID          string
	Rows        iter.Seq2[Row, error] // in order of place
	Checkpoints []Signed              // in any order
	Closings    []Signed              // of pruned segments, in any order
	Unchained   int64                 // entries that no link covers yet
}

// A Result says what a verification found.
type Result struct {
	Log        string    `json:"log"`
	Entries    int64     `json:"entries"`             // that were read and fit
	First      int64     `json:"first"`               // the place of the first entry that is kept
	Last       int64     `json:"last"`                // the place of the last one
	Covered    int64     `json:"covered"`             // the last place that a valid checkpoint covers
	Pruned     int64     `json:"pruned"`              // entries that signed closings account for
	Unchained  int64     `json:"unchained"`           // committed, and not chained yet
	Checkpoint string    `json:"checkpoint,omitzero"` // the hash at Covered
	Problems   []Problem `json:"problems"`

	Older map[string]int64 `json:"older,omitempty"` // statements that older keys signed, by their names
}

// A Problem is one thing that does not fit.
type Problem struct {
	Position int64  `json:"position"`
	What     string `json:"what"`
}

// OK reports whether nothing was found.
func (r Result) OK() bool { return len(r.Problems) == 0 }

// maxProblems ends a verification that finds the same thing over and over.
const maxProblems = 50

// Verify reads a whole log and says everything that does not fit: a change, a gap, an
// entry put in, an end that lies before what a checkpoint saw. trusted are checkpoints
// that the caller kept elsewhere: without them, who holds the key can cut the end off.
// older are keys that signed before key did: their statements count as its own.
func Verify(kept Kept, key ed25519.PublicKey, trusted []Signed, older ...ed25519.PublicKey) (Result, error) {
	v := verifier{keys: append([]ed25519.PublicKey{key}, older...), strange: map[string]int{},
		result: Result{Log: kept.ID, Unchained: kept.Unchained, Problems: []Problem{}, Older: map[string]int64{}}, want: map[int64][]Hash{}}
	before := v.closings(kept)
	v.checkpoints(kept.ID, kept.Checkpoints, "checkpoint")
	v.checkpoints(kept.ID, trusted, "trusted checkpoint")
	for _, name := range slices.Sorted(maps.Keys(v.strange)) {
		v.problem(0, "%d statements cannot be trusted: they say that the key %s signed them, which is none of this host's (an older identity.pub belongs into keys/)",
			v.strange[name], bourn.Printable(cut(name)))
	}
	v.result.First = before.position + 1
	v.result.Last = before.position
	last, err := v.rows(kept.Rows, before)
	if err != nil {
		return v.result, err
	}
	v.end(last, before)
	return v.result, nil
}

// place is a link: its place and hash.
type place struct {
	position int64
	hash     Hash
}

type verifier struct {
	keys    []ed25519.PublicKey
	strange map[string]int // statements by keys that are not among them, by name
	result  Result
	want    map[int64][]Hash // what checkpoints say of a place
}

func (v *verifier) problem(position int64, format string, args ...any) {
	if len(v.result.Problems) < maxProblems {
		v.result.Problems = append(v.result.Problems, Problem{position, fmt.Sprintf(format, args...)})
	}
}

// open returns a statement that is about this log and well formed.
func (v *verifier) open(log, kind string, s Signed, what string) (place, Statement, bool) {
	by := v.keys[0]
	claimed := s.claimed()
	known := claimed == ""
	for _, key := range v.keys {
		if KeyName(key) == claimed {
			by, known = key, true
		}
	}
	if !known {
		v.strange[claimed]++ // one problem for each key: after a change of keys they are many
		return place{}, Statement{}, false
	}
	st, err := s.Open(by)
	if err != nil {
		v.problem(0, "a %s cannot be trusted: %v", what, err)
		return place{}, st, false
	}
	if !by.Equal(v.keys[0]) {
		v.result.Older[claimed]++ // said: who can write the home can put a key among them
	}
	hash, err := ParseHash(st.Hash)
	if err != nil || st.Type != kind || st.Log != log {
		v.problem(st.Position, "a %s is about something else: %s of the log %q", what, bourn.Printable(st.Type), bourn.Printable(st.Log))
		return place{}, st, false
	}
	return place{st.Position, hash}, st, true
}

// closings returns the link before the first entry that is kept.
func (v *verifier) closings(kept Kept) place {
	before := place{0, Genesis(kept.ID)}
	type closing struct {
		first int64
		end   place
	}
	var all []closing
	for _, s := range kept.Closings {
		if end, st, ok := v.open(kept.ID, TypeClosing, s, "closing"); ok {
			all = append(all, closing{st.First, end})
		}
	}
	slices.SortFunc(all, func(a, b closing) int { return int(a.end.position - b.end.position) })
	for _, c := range all {
		if c.first != before.position+1 {
			v.problem(c.first, "the closing up to %d begins at %d, and the one before ends at %d", c.end.position, c.first, before.position)
		}
		before = c.end
	}
	v.result.Pruned = before.position
	return before
}

func (v *verifier) checkpoints(log string, all []Signed, what string) {
	for _, s := range all {
		if at, _, ok := v.open(log, TypeCheckpoint, s, what); ok {
			v.want[at.position] = append(v.want[at.position], at.hash)
		}
	}
}

// rows follows the chain, and returns its end.
func (v *verifier) rows(rows iter.Seq2[Row, error], before place) (place, error) {
	ids := map[[16]byte]struct{}{} // of a long log they are many: half a hash each
	for row, err := range rows {
		if err != nil {
			return before, fmt.Errorf("cannot read the log: %w", err)
		}
		if len(v.result.Problems) >= maxProblems {
			return before, nil
		}
		if row.Position != before.position+1 {
			v.problem(before.position+1, "%d entries are missing before place %d", row.Position-before.position-1, row.Position)
		}
		hash := Next(before.hash, row.Position, row.Body)
		if hash != row.Hash {
			v.problem(row.Position, "the entry %s was changed, or one before it was", bourn.Printable(row.ID))
		}
		sum := sha256.Sum256([]byte(row.ID))
		id := [16]byte(sum[:])
		if _, twice := ids[id]; twice {
			v.problem(row.Position, "the entry %s stands here twice", bourn.Printable(row.ID))
		}
		ids[id] = struct{}{}
		if hash == row.Hash && !row.fits() {
			v.problem(row.Position, "the columns beside the entry %s say something else than it does", bourn.Printable(row.ID))
		}
		for _, want := range v.want[row.Position] {
			if want != row.Hash {
				v.problem(row.Position, "a signed checkpoint saw another entry here, or another before it")
			} else {
				v.result.Covered = max(v.result.Covered, row.Position)
			}
		}
		if v.result.Covered == row.Position {
			v.result.Checkpoint = row.Hash.String()
		}
		// What is kept is followed on, so that one change is one problem.
		before = place{row.Position, row.Hash}
		v.result.Entries++
		v.result.Last = row.Position
	}
	return before, nil
}

// fits reports whether what stands beside an entry is what it says: rows are found and
// pruned by it.
func (r Row) fits() bool {
	var e Entry
	return json.Unmarshal(r.Body, &e) == nil && e.ID == r.ID && (r.At.IsZero() || r.At.Equal(e.At))
}

// end finds an end that was cut off, and checkpoints of what was pruned that differ
// from its closing.
func (v *verifier) end(last, before place) {
	for position, hashes := range v.want {
		switch {
		case position > last.position:
			v.problem(position, "the log ends at %d, and a signed checkpoint saw it reach %d", last.position, position)
		case position == before.position:
			for _, want := range hashes {
				if want != before.hash {
					v.problem(position, "a signed checkpoint saw another entry where a closing ends")
				}
			}
		}
	}
	slices.SortStableFunc(v.result.Problems, func(a, b Problem) int { return int(a.Position - b.Position) })
}
