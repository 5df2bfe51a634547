// Package archive is the file that a backup is: a tar of parts, and a manifest with the
// digest of each as the last.
//
//	records.dump      pg_dump -Fc of the database records
//	control.dump      the same of control, made after it: the log is there
//	checkpoint.json   the log's newest signed checkpoint before that, {} where there is none
//	identity.pub      the public key that the log is signed with
//	manifest.json     {"format": 1, "parts": [{"name": …, "bytes": …, "sha256": …}], …}
//
// # What it upholds
//
// A file is there under its name when it is complete and on disk, for its owner alone, and
// never in another's place. Open has read all of it: each part is there once, as long and
// with the digest that the manifest says, and nothing else is.
//
// # What it does not
//
// Whoever can write the file can write a manifest that fits. The log in it is signed, and
// is verified after a restore; the rest is not.
package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bourn"
)

// The parts.
const (
	Records    = "records.dump"
	Control    = "control.dump"
	Checkpoint = "checkpoint.json"
	Identity   = "identity.pub"
	manifest   = "manifest.json"
)

var parts = []string{Records, Control, Checkpoint, Identity}

// format is the version of what this package writes, and the only one that it reads.
const format = 1

// maxManifest bounds a manifest that is read, in bytes.
const maxManifest = 1 << 20

// A Manifest says what a backup holds.
type Manifest struct {
	Format     int              `json:"format"`
	Made       time.Time        `json:"made"`
	Bourn      string           `json:"bourn"`                // the version that made it
	Postgres   string           `json:"postgres"`             // that of the server
	Migrations map[string]int64 `json:"migrations,omitempty"` // how far each database had come, as in control/auth
	Parts      []Part           `json:"parts"`
}

// A Part is one file of a backup.
type Part struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// A Writer writes a backup. One that is not finished leaves nothing.
type Writer struct {
	path  string
	file  *os.File
	parts []Part
}

// Create begins a backup at path, where nothing may be.
func Create(path string) (*Writer, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, exists(path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("cannot write the backup: %w", err)
	}
	return &Writer{path: path, file: f}, nil
}

func exists(path string) error {
	return bourn.WithHint(fmt.Errorf("%w: %s exists, and a backup is not written over anything", bourn.ErrConflict, path), "name another file")
}

// Add writes a part. Its length is known when it has been written, so that its header is
// written last.
func (w *Writer) Add(name string, write func(io.Writer) error) error {
	start, err := w.file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("cannot write the backup: %w", err)
	}
	if _, err := w.file.Write(make([]byte, block)); err != nil {
		return fmt.Errorf("cannot write the backup: %w", err)
	}
	sum := sha256.New()
	if err := write(io.MultiWriter(w.file, sum)); err != nil {
		return err
	}
	end, err := w.file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("cannot write the backup: %w", err)
	}
	part := Part{Name: name, Bytes: end - start - block, SHA256: hex.EncodeToString(sum.Sum(nil))}
	head, err := header(part)
	if err == nil {
		_, err = w.file.WriteAt(head, start)
	}
	if err == nil {
		_, err = w.file.Write(make([]byte, (block-part.Bytes%block)%block))
	}
	if err != nil {
		return fmt.Errorf("cannot write the backup: %w", err)
	}
	w.parts = append(w.parts, part)
	return nil
}

// block is the size that tar counts in, in bytes.
const block = 512

// header is a part's header: one block in this form, whatever its length.
func header(p Part) ([]byte, error) {
	var b bytes.Buffer
	err := tar.NewWriter(&b).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: p.Name, Size: p.Bytes, Mode: 0o600, Format: tar.FormatGNU})
	if err == nil && b.Len() != block {
		err = fmt.Errorf("the header of %s has %d bytes", p.Name, b.Len())
	}
	return b.Bytes(), err
}

// Finish writes the manifest and gives the file its name.
func (w *Writer) Finish(m Manifest) error {
	m.Format, m.Parts = format, w.parts
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := w.Add(manifest, func(to io.Writer) error { _, err := to.Write(append(text, '\n')); return err }); err != nil {
		return err
	}
	if _, err = w.file.Write(make([]byte, 2*block)); err == nil { // the end of a tar
		err = w.file.Sync()
	}
	if err == nil {
		err = name(w.file.Name(), w.path)
	}
	if errors.Is(err, fs.ErrExist) {
		return exists(w.path)
	}
	if err != nil {
		return fmt.Errorf("cannot write the backup: %w", err)
	}
	return nil
}

// name gives a file another name, which must be free.
func name(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// A file system without hard links.
	if _, err := os.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return os.Rename(from, to)
}

// Close removes what is not under its own name.
func (w *Writer) Close() error {
	err := os.Remove(w.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, w.file.Close())
}

// An Archive is a backup that was read and found whole.
type Archive struct {
	Manifest Manifest
	file     *os.File
	at       map[string]int64
}

// Open reads all of a backup; ErrInvalid is one that is not whole.
func Open(path string) (*Archive, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, bourn.WithHint(fmt.Errorf("%w: there is no backup %s", bourn.ErrNotFound, path), "bourn db backup makes one")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the backup: %w", err)
	}
	a := &Archive{file: f, at: map[string]int64{}}
	if err := a.read(); err != nil {
		f.Close()
		return nil, bourn.WithHint(fmt.Errorf("%w: %s is no whole backup: %w", bourn.ErrInvalid, path, err), "use another copy of it; nothing was done")
	}
	return a, nil
}

func (a *Archive) read() error {
	r := tar.NewReader(a.file)
	has := map[string]Part{}
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if _, twice := has[h.Name]; twice || h.Typeflag != tar.TypeReg || h.Name != manifest && !slices.Contains(parts, h.Name) {
			return fmt.Errorf("%q does not belong into it", bourn.Printable(h.Name))
		}
		at, err := a.file.Seek(0, io.SeekCurrent) // a reader of tar reads no further than it must
		if err != nil {
			return err
		}
		a.at[h.Name] = at
		sum := sha256.New()
		n, err := io.Copy(sum, r)
		if err != nil {
			return err
		}
		has[h.Name] = Part{h.Name, n, hex.EncodeToString(sum.Sum(nil))}
	}
	text, err := io.ReadAll(io.NewSectionReader(a.file, a.at[manifest], min(has[manifest].Bytes, maxManifest)))
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a.Manifest); err != nil {
		return fmt.Errorf("its manifest cannot be read: %w", err)
	}
	if a.Manifest.Format != format {
		return fmt.Errorf("its form is number %d, and this bourn knows %d", a.Manifest.Format, format)
	}
	delete(has, manifest)
	for _, p := range a.Manifest.Parts {
		if has[p.Name] != p {
			return fmt.Errorf("%s is not as its manifest says", bourn.Printable(p.Name))
		}
		delete(has, p.Name)
	}
	if len(has) > 0 || len(a.Manifest.Parts) != len(parts) {
		return errors.New("its manifest does not say what is in it")
	}
	return nil
}

// Part returns what a part holds.
func (a *Archive) Part(name string) *io.SectionReader {
	for _, p := range a.Manifest.Parts {
		if p.Name == name {
			return io.NewSectionReader(a.file, a.at[name], p.Bytes)
		}
	}
	return io.NewSectionReader(a.file, 0, 0)
}

// Close lets go of the file.
func (a *Archive) Close() error { return a.file.Close() }
