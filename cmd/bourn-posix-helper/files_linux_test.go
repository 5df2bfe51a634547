package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bourn/internal/posix"
)

// TestRegistry puts registries there that are not root's alone, or not valid.
func TestRegistry(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		good := encoded(t, people())
		replaced := func(old, new string) []byte {
			data := bytes.ReplaceAll(good, []byte(old), []byte(new))
			if bytes.Equal(data, good) {
				t.Fatalf("the registry has no %q", old)
			}
			return data
		}
		number := fmt.Sprint(annUID)
		for name, spoil := range map[string]func(t *testing.T){
			"group-writable": func(t *testing.T) { write(t, registryPath, good, 0, serviceUID, 0o664) },
			"world-writable": func(t *testing.T) { write(t, registryPath, good, 0, 0, 0o646) },
			"the service's":  func(t *testing.T) { write(t, registryPath, good, serviceUID, 0, 0o644) },
			"a person's":     func(t *testing.T) { write(t, registryPath, good, annUID, annUID, 0o600) },
			"missing":        func(t *testing.T) { must(t, os.Remove(registryPath)) },
			"empty":          func(t *testing.T) { write(t, registryPath, nil, 0, 0, 0o644) },
			"half":           func(t *testing.T) { write(t, registryPath, good[:len(good)/2], 0, 0, 0o644) },
			"two":            func(t *testing.T) { write(t, registryPath, append(good[:len(good):len(good)], good...), 0, 0, 0o644) },
			"huge": func(t *testing.T) {
				write(t, registryPath, append(bytes.Repeat([]byte{' '}, posix.MaxRegistry), good...), 0, 0, 0o644)
			},
			"root":              func(t *testing.T) { write(t, registryPath, replaced(number, "0"), 0, 0, 0o644) },
			"below the range":   func(t *testing.T) { write(t, registryPath, replaced(number, "1000"), 0, 0, 0o644) },
			"above the range":   func(t *testing.T) { write(t, registryPath, replaced(number, "4294967295"), 0, 0, 0o644) },
			"negative":          func(t *testing.T) { write(t, registryPath, replaced(number, "-1"), 0, 0, 0o644) },
			"too large":         func(t *testing.T) { write(t, registryPath, replaced(number, "4295055312"), 0, 0, 0o644) }, // annUID + 2^32
			"a service's range": func(t *testing.T) { write(t, registryPath, replaced(`"first": 88000`, `"first": 0`), 0, 0, 0o644) },
			"root's group":      func(t *testing.T) { write(t, registryPath, replaced(fmt.Sprint(salesGID), "0"), 0, 0, 0o644) },
			"an unknown key":    func(t *testing.T) { write(t, registryPath, replaced(`"shared"`, `"Shared"`), 0, 0, 0o644) },
			"a directory": func(t *testing.T) {
				must(t, os.Remove(registryPath))
				must(t, os.Mkdir(registryPath, 0o755))
			},
			"a fifo": func(t *testing.T) {
				must(t, os.Remove(registryPath))
				must(t, unix.Mkfifo(registryPath, 0o644))
			},
			"a symbolic link": func(t *testing.T) {
				write(t, "/etc/bourn/real.json", good, 0, 0, 0o644)
				must(t, os.Remove(registryPath))
				must(t, os.Symlink("real.json", registryPath))
			},
			"in a linked directory": func(t *testing.T) {
				must(t, os.Rename("/etc/bourn", "/etc/real"))
				must(t, os.Symlink("real", "/etc/bourn"))
			},
			"in a group-writable directory": func(t *testing.T) { must(t, os.Chmod("/etc/bourn", 0o775)) },
			"in a sticky directory":         func(t *testing.T) { must(t, os.Chmod("/etc/bourn", 0o777|os.ModeSticky)) },
			"in the service's directory":    func(t *testing.T) { must(t, os.Chown("/etc/bourn", serviceUID, 0)) },
			"below a writable directory":    func(t *testing.T) { must(t, os.Chmod("/etc", 0o777|os.ModeSticky)) },
		} {
			t.Run(name, func(t *testing.T) {
				must(t, os.Chmod("/etc", 0o755))
				must(t, os.RemoveAll("/etc/bourn"))
				must(t, os.Mkdir("/etc/bourn", 0o755))
				write(t, registryPath, good, 0, 0, 0o644)
				spoil(t)
				for _, verb := range []string{"actor", "dial", "kill", "revoke"} {
					asking{}.ask(t, verb, ann).refused(t, posix.RuntimeUnavailable, "cannot use the registry")
				}
			})
		}
	})
}

// TestProgram puts something else in bourn's place.
func TestProgram(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		good, err := os.ReadFile(programFile)
		must(t, err)
		for name, spoil := range map[string]func(t *testing.T){
			"missing":        func(t *testing.T) { must(t, os.Remove(programFile)) },
			"group-writable": func(t *testing.T) { must(t, os.Chmod(programFile, 0o775)) },
			"world-writable": func(t *testing.T) { must(t, os.Chmod(programFile, 0o757)) },
			"the service's":  func(t *testing.T) { must(t, os.Chown(programFile, serviceUID, 0)) },
			"not executable": func(t *testing.T) { must(t, os.Chmod(programFile, 0o644)) },
			"a script":       func(t *testing.T) { write(t, programFile, []byte("#!/bin/sh\nid\n"), 0, 0, 0o755) },
			"a symbolic link": func(t *testing.T) {
				must(t, os.Rename(programFile, "/mnt/bin/real"))
				must(t, os.Symlink("real", programFile))
			},
			"in a linked directory": func(t *testing.T) {
				must(t, os.Rename("/mnt/bin", "/mnt/real"))
				must(t, os.Symlink("real", "/mnt/bin"))
			},
			"in a group-writable directory": func(t *testing.T) { must(t, os.Chmod("/mnt/bin", 0o775)) },
			"in a sticky directory":         func(t *testing.T) { must(t, os.Chmod("/mnt/bin", 0o777|os.ModeSticky)) },
			"in the service's directory":    func(t *testing.T) { must(t, os.Chown("/mnt/bin", serviceUID, 0)) },
		} {
			t.Run(name, func(t *testing.T) {
				must(t, os.RemoveAll("/mnt/bin"))
				must(t, os.RemoveAll("/mnt/real"))
				must(t, os.Mkdir("/mnt/bin", 0o755))
				write(t, programFile, good, 0, 0, 0o755)
				asking{}.ask(t, "actor", ann).acted(t)
				spoil(t)
				asking{}.ask(t, "actor", ann).refused(t, posix.RuntimeUnavailable, "")
			})
		}
		// Above its directory a sticky one will do, as /tmp is.
		must(t, os.RemoveAll("/mnt/bin"))
		must(t, os.Mkdir("/mnt/bin", 0o755))
		write(t, programFile, good, 0, 0, 0o755)
		must(t, os.Chmod("/mnt", 0o777|os.ModeSticky))
		asking{}.ask(t, "actor", ann).acted(t)
		must(t, os.Chmod("/mnt", 0o777))
		asking{}.ask(t, "actor", ann).refused(t, posix.RuntimeUnavailable, "writable by nobody else")
		must(t, os.Chmod("/mnt", 0o755))
		// The private directory is entered as the person.
		must(t, os.Chmod(homes+"ann", 0o700))
		asking{}.ask(t, "actor", ann).refused(t, posix.RuntimeUnavailable, "cannot enter the private directory")
	})
}

// TestLinkedHelper has the helper executed by another name, next to another bourn.
func TestLinkedHelper(t *testing.T) {
	inWorld(t, func(t *testing.T) {
		must(t, os.MkdirAll("/mnt/trap/libexec/bourn", 0o755))
		must(t, os.MkdirAll("/mnt/trap/bin", 0o755))
		write(t, "/mnt/trap/bin/bourn", []byte("x"), serviceUID, serviceUID, 0o755)
		must(t, os.Link(helperPath, "/mnt/trap/libexec/bourn/bourn-posix-helper"))
		asking{call: call{Path: "/mnt/trap/libexec/bourn/bourn-posix-helper"}}.ask(t, "actor", ann).refused(t, posix.RuntimeUnavailable, "writable by nobody else")
		// By a symbolic link it is still itself.
		must(t, os.Symlink(helperPath, "/mnt/trap/helper"))
		asking{call: call{Path: "/mnt/trap/helper"}}.ask(t, "actor", ann).acted(t)
	})
}

func TestParseSocketPath(t *testing.T) {
	for line, ok := range map[string]bool{
		"/run/postgresql/.s.PGSQL.5432\n": true, "/a": true, "/" + strings.Repeat("a", 106): true,
		"/" + strings.Repeat("a", 107): false, "": false, "\n": false, "a": false, "@a": false, "\x00a": false, "/a/../b": false, "/a/": false,
		"/a\n\n": false, "/a\n/b": false, "/a\x00b": false, "{}": false,
	} {
		if _, err := parseSocketPath([]byte(line)); (err == nil) != ok {
			t.Errorf("%q: %v", line, err)
		}
	}
}
