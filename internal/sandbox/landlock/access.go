package landlock

import "strings"

// Access is a set of file system rights, with the kernel's bits
// (LANDLOCK_ACCESS_FS_* in include/uapi/linux/landlock.h).
type Access uint64

// Single rights. Rules are meant to be made from the levels below.
const (
	Execute Access = 1 << iota
	WriteFile
	ReadFile
	ReadDir
	RemoveDir
	RemoveFile
	MakeChar
	MakeDir
	MakeReg
	MakeSock
	MakeFifo
	MakeBlock
	MakeSym
	Refer       // ABI 2: link and rename between directories
	Truncate    // ABI 3
	IoctlDev    // ABI 5
	ResolveUnix // ABI 9
)

// Levels, to be combined.
const (
	// Read opens files for reading and lists directories.
	Read = ReadFile | ReadDir
	// Exec runs programs. Shared libraries and scripts need Read as well.
	Exec = Execute
	// Write changes, makes, removes, renames and links whatever is in a directory, but
	// does not open for reading.
	Write = WriteFile | RemoveDir | RemoveFile | MakeChar | MakeDir | MakeReg | MakeSock |
		MakeFifo | MakeBlock | MakeSym | Refer | Truncate
	// DevIO writes to device files and uses their ioctls (terminals need it).
	DevIO = WriteFile | IoctlDev
	// Connect reaches pathname unix sockets that listen outside the seal. Kernels below
	// ABI 9 do not mediate this: there it grants nothing and its lack refuses nothing.
	Connect = ResolveUnix
)

// onFile holds the rights that the kernel accepts for a rule on something that is not a
// directory (ACCESS_FILE in security/landlock/fs.c).
const onFile = Execute | WriteFile | ReadFile | Truncate | IoctlDev | ResolveUnix

// allAccess holds every right that this package knows.
const allAccess = ResolveUnix<<1 - 1

var accessNames = [...]string{
	"execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file",
	"make_char", "make_dir", "make_reg", "make_sock", "make_fifo", "make_block",
	"make_sym", "refer", "truncate", "ioctl_dev", "resolve_unix",
}

// String lists the rights by their kernel names, separated by commas.
func (a Access) String() string { return bitNames(uint64(a), accessNames[:]) }

// Scope is a set of what is confined to the seal besides paths, with the kernel's bits
// (LANDLOCK_SCOPE_*).
type Scope uint64

// Scopes, both since ABI 6.
const (
	ScopeAbstractUnixSocket Scope = 1 << iota
	ScopeSignal
)

var scopeNames = [...]string{"abstract_unix_socket", "signal"}

// String lists the scopes by their kernel names, separated by commas.
func (s Scope) String() string { return bitNames(uint64(s), scopeNames[:]) }

func bitNames(set uint64, names []string) string {
	var in []string
	for i, name := range names {
		if set&(1<<i) != 0 {
			in = append(in, name)
		}
	}
	if set>>len(names) != 0 {
		in = append(in, "unknown")
	}
	return strings.Join(in, ",")
}

// A version says what an ABI added to the one before it.
type version struct {
	abi    int
	fs     Access
	scopes Scope
	tcp    bool
}

// versions is the history of Landlock as far as this package uses it. ABI 8 (all threads
// at once), 10 (UDP, quiet rules) and 11 add nothing that is used here.
var versions = [...]version{
	{abi: 1, fs: Refer - 1}, // Linux 5.13
	{abi: 2, fs: Refer},     // 5.19
	{abi: 3, fs: Truncate},  // 6.2
	{abi: 4, tcp: true},     // 6.7
	{abi: 5, fs: IoctlDev},  // 6.10
	{abi: 6, scopes: ScopeAbstractUnixSocket | ScopeSignal}, // 6.12
	{abi: 9, fs: ResolveUnix},                               // 7.1
}

// handled returns what an ABI can restrict; TCP says whether it could.
func handled(abi int) Result {
	res := Result{ABI: abi}
	for _, v := range versions {
		if v.abi > abi {
			break
		}
		res.FS |= v.fs
		res.Scopes |= v.scopes
		res.TCP = res.TCP || v.tcp
	}
	return res
}

// granted returns what is left of an access for one object.
func granted(a, handled Access, directory bool) Access {
	if !directory {
		a &= onFile
	}
	return a & handled
}
