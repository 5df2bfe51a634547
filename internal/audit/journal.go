package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bourn"
)

// JournalPath is where runs without a control plane note what they did, below $BOURN_HOME:
// one entry a line, until a control plane takes them in.
func JournalPath(home string) string { return filepath.Join(home, "journal.jsonl") }

// maxJournal is how large a journal may become that nobody takes in, in bytes; after it
// its oldest half goes when it is written to.
const maxJournal = 8 << 20

// Note adds entries to the journal at path, all of them or none. They are not settled on
// disk: a start must not wait for one.
func Note(path string, entries ...Entry) error {
	var lines []byte
	for i := range entries {
		body, err := entries[i].Encode(time.Now())
		if err != nil {
			return err
		}
		lines = append(append(lines, body...), '\n')
	}
	unlock, err := Lock(path + ".lock")
	if err != nil {
		return fmt.Errorf("cannot note what was done: %w", err)
	}
	defer unlock()
	if info, err := os.Lstat(path); err == nil && info.Size() > maxJournal {
		if err := halve(path); err != nil {
			return fmt.Errorf("cannot shorten the journal: %w", err)
		}
	}
	f, err := openJournal(path, os.O_RDWR|os.O_APPEND, true)
	if err != nil {
		return fmt.Errorf("cannot note what was done: %w", err)
	}
	defer f.Close()
	if torn(f) {
		lines = append([]byte{'\n'}, lines...)
	}
	if n, err := f.Write(lines); err != nil {
		if info, statErr := f.Stat(); n > 0 && statErr == nil { // a disk that is full
			err = errors.Join(err, f.Truncate(info.Size()-int64(n)))
		}
		return fmt.Errorf("cannot note what was done: %w", err)
	}
	return nil
}

// torn reports whether a journal ends within a line, which a process left that was killed.
func torn(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return err != nil || last[0] != '\n'
}

// openJournal opens a journal that is a file of its own: no link leads elsewhere.
func openJournal(path string, how int, make bool) (*os.File, error) {
	seen, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) && make {
		return os.OpenFile(path, how|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return nil, err
	}
	if !seen.Mode().IsRegular() {
		return nil, errNoFile
	}
	f, err := os.OpenFile(path, how, 0)
	if err != nil {
		return nil, err
	}
	if opened, err := f.Stat(); err != nil || !os.SameFile(seen, opened) {
		f.Close()
		return nil, errNoFile
	}
	return f, nil
}

var errNoFile = bourn.WithHint(fmt.Errorf("%w: the journal is a link or no file", bourn.ErrDenied), "remove journal.jsonl from $BOURN_HOME")

// halve drops the older half of a journal, and notes that it did.
func halve(path string) error {
	f, err := openJournal(path, os.O_RDONLY, false)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	kept := text[len(text)/2:]
	if i := bytes.IndexByte(kept, '\n'); i >= 0 {
		kept = kept[i+1:]
	}
	lost := Entry{Kind: KindService, Who: "host", What: "journal shortened", Reason: "no control plane took it in", Repeated: bytes.Count(text, []byte("\n")) - bytes.Count(kept, []byte("\n"))}
	body, err := lost.Encode(time.Now())
	if err != nil {
		return err
	}
	beside := path + ".short"
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	short, err := openJournal(beside, os.O_RDWR, true)
	if err != nil {
		return err
	}
	defer short.Close()
	if _, err := short.Write(append(append(body, '\n'), kept...)); err != nil {
		return err
	}
	return os.Rename(beside, path)
}

// takeAtOnce is how many entries are handed over together.
const takeAtOnce = 500

// TakeIn hands the entries of the journal at path to take, in order, and removes them once
// they were taken. Entries that were taken before an end that came too early are handed
// over again: they have their ids. A line that cannot be read is left out; the last one of
// a process that was killed is such a line. However long take needs, nobody who notes
// something waits for it: the journal is moved aside first. One process at a time takes in.
func TakeIn(path string, take func([]Entry) error) error {
	aside := path + ".taken"
	if err := takeAside(aside, take); err != nil { // what was left when it did not come to an end
		return err
	}
	if info, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	unlock, err := Lock(path + ".lock")
	if err != nil {
		return fmt.Errorf("cannot take in the journal: %w", err)
	}
	f, err := openJournal(path, os.O_RDONLY, false)
	if err == nil {
		err = errors.Join(f.Close(), os.Rename(path, aside))
	}
	unlock()
	if err != nil {
		return fmt.Errorf("cannot take in the journal: %w", err)
	}
	return takeAside(aside, take)
}

// takeAside hands over the entries of a journal that nobody writes to any more.
func takeAside(aside string, take func([]Entry) error) error {
	f, err := openJournal(aside, os.O_RDONLY, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot take in the journal: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	for done := false; !done; {
		var batch []Entry
		for len(batch) < takeAtOnce && !done {
			line, err := readLine(r)
			if errors.Is(err, io.EOF) {
				done = true
			} else if err != nil {
				return fmt.Errorf("cannot take in the journal: %w", err)
			}
			var e Entry
			if len(line) > 0 && json.Unmarshal(line, &e) == nil && e.ID != "" {
				batch = append(batch, e)
			}
		}
		if len(batch) == 0 {
			continue
		}
		if err := take(batch); err != nil {
			return err
		}
	}
	return os.Remove(aside)
}

// readLine returns the next line; one that is longer than an entry can be is empty.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return bytes.TrimSpace(line), err
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	return nil, err
}
