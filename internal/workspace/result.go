package workspace

import "time"

// ReadResult is what reading a file gives.
type ReadResult struct {
	Path      string `json:"path"` // what was opened
	Content   []byte `json:"content,omitempty"`
	Size      int64  `json:"size"`   // of the file, bytes
	Offset    int64  `json:"offset"` // where Content begins
	Truncated bool   `json:"truncated,omitempty"`
	Digest    string `json:"digest,omitempty"` // SHA-256 of the whole file, where it was read whole
}

// detach and attach carry the content apart from the JSON of a result: nothing of it is
// encoded.
func (r ReadResult) detach() (any, []byte) {
	content := r.Content
	r.Content = nil
	return r, content
}

func (r *ReadResult) attach(content []byte) { r.Content = content }

// An Entry is what a path is. A name that is no UTF-8 is shown with U+FFFD, and a tool
// cannot name it.
type Entry struct {
	Path     string    `json:"path"`
	Kind     string    `json:"kind"` // file, directory, link, pipe, socket, device
	Size     int64     `json:"size,omitempty"`
	Mode     string    `json:"mode,omitempty"`
	Modified time.Time `json:"modified,omitzero"`
	Target   string    `json:"target,omitempty"` // of a link
}

// ListResult is what listing or finding gives, paths relative to Path: what is denied, and
// what the kernel does not show, is left out and counted.
type ListResult struct {
	Path      string  `json:"path"`
	Entries   []Entry `json:"entries"`
	LeftOut   int     `json:"left_out"`
	Truncated bool    `json:"truncated,omitempty"`
}

// A Hit is a line that a search found.
type Hit struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"` // cut after 4 KiB
}

// SearchResult is what a search found, paths relative to Path, in order. LeftOut counts what
// was denied, Skipped what is no text or too large.
type SearchResult struct {
	Path      string `json:"path"`
	Hits      []Hit  `json:"hits"`
	Files     int    `json:"files"` // that were searched
	LeftOut   int    `json:"left_out"`
	Skipped   int    `json:"skipped"`
	Truncated bool   `json:"truncated,omitempty"`
}

// WriteResult is what writing, editing, deleting and moving give.
type WriteResult struct {
	Path    string `json:"path"`
	Created bool   `json:"created,omitempty"`
	Before  string `json:"before,omitempty"` // SHA-256 of what was there
	After   string `json:"after,omitempty"`  // and of what is there now
	Bytes   int    `json:"bytes"`
}

// ShareResult says what was copied into a circle.
type ShareResult struct {
	Path        string `json:"path"` // of the copy
	Files       int    `json:"files_shared"`
	Directories int    `json:"directories"`
	Bytes       int64  `json:"bytes"`
	After       string `json:"after,omitempty"` // SHA-256 of a single file
}

// PatchResult says what a patch changed.
type PatchResult struct {
	Files []WriteResult `json:"files"`
}

// ExecResult is what came of a command. Output beyond the limit is left out in the middle,
// and whole, up to 32 MiB, in the file Spill or SpillErr where the actor has a place for it.
type ExecResult struct {
	Status   int    `json:"status"` // 128 and the signal's number where one ended it
	Signal   string `json:"signal,omitempty"`
	Stdout   []byte `json:"stdout"` // of a pty: everything
	Stderr   []byte `json:"stderr,omitempty"`
	LeftOut  int64  `json:"left_out,omitempty"` // bytes
	Spill    string `json:"spill,omitempty"`
	SpillErr string `json:"spill_err,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Duration int64  `json:"duration_us"`
	Denied   int    `json:"denied,omitempty"` // of git: paths that were left out, since a hard block denies reading them
}
