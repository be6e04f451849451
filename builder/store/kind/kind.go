// Package kind tells what an object of the cache is by its first bytes. The store itself knows keys only, and what an
// older spore has put there is told as well.
package kind

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// Kind is what an object is good for.
type Kind string

// The kinds.
const (
	Indexes  Kind = "indexes"  // what the package archive says that it has, and package lists made of it
	Packages Kind = "packages" // .deb files
	Packs    Kind = "packs"    // the files of a package or a program, compressed, as images are linked from them
	Programs Kind = "programs" // compiled programs, jars and scripts
	Images   Kind = "images"   // container images
	Roots    Kind = "roots"    // finished root filesystems with their hash trees, and what boots them
	Initrds  Kind = "initrds"  // parts of an initramfs, and what is known of a kernel's modules
	Other    Kind = "other"
)

// All are the kinds, in the order of a build.
func All() []Kind { return []Kind{Indexes, Packages, Packs, Programs, Images, Roots, Initrds, Other} }

// headSize is how much of an object is looked at, in bytes: a block of tar.
const headSize = 512

// magics are looked at in this order.
var magics = []struct {
	at    int
	magic string
	kind  Kind
}{
	{0, "!<arch>\ndebian-binary", Packages},
	{0, "SPOREPK", Packs},
	{0, `{"name":`, Packs}, // what a package says of itself
	{0, "\x7fELF", Programs},
	{0, "#!", Programs},
	{0, "PK\x03\x04", Programs},
	{0, "hsqs", Roots},
	{0, "verity\x00\x00", Roots},
	{0, "MZ", Roots},     // kernel, stub and boot loader
	{0, "070701", Roots}, // microcode
	{0, "NAME=", Roots},  // os-release
	{0, `{"hash":`, Roots},
	{0, "\x28\xb5\x2f\xfd", Initrds},
	{0, `{"version":`, Initrds},
	{0, "-----BEGIN PGP SIGNED MESSAGE-----", Indexes},
	{0, "Package: ", Indexes},
	{0, "\xfd7zXZ\x00", Indexes},
	{0, "\x1f\x8b", Indexes},
	{0, `[{`, Indexes}, // a resolved list
	{257, "ustar", Images},
}

// Of tells the kind of an object by its first 512 bytes, or all of it when it is shorter.
func Of(head []byte) Kind {
	for _, m := range magics {
		if len(head) >= m.at && bytes.HasPrefix(head[m.at:], []byte(m.magic)) {
			return m.kind
		}
	}
	return Other
}

// OfFile is Of for a file.
func OfFile(name string) (Kind, error) {
	f, err := os.Open(name)
	if err != nil {
		return Other, err
	}
	defer f.Close()
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Other, err
	}
	return Of(head[:n]), nil
}
