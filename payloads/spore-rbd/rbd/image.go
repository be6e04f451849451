package rbd

import (
	"fmt"
	"regexp"
)

// Image names an RBD image. There are no namespaces and no snapshots here.
type Image struct {
	Pool, Name string
}

// The bounds are those that the names stay within command lines and paths of the kernel's device tree with; "@" would name
// a snapshot, "/" a namespace, and a "-" at the beginning an option.
var (
	poolName  = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]{0,63}$`)
	imageName = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]{0,127}$`)
)

// String is the image as rbd(8) and volume handles have it: POOL/NAME.
func (i Image) String() string { return i.Pool + "/" + i.Name }

// NewImage checks the names of a pool and an image.
func NewImage(pool, name string) (Image, error) {
	if !poolName.MatchString(pool) {
		return Image{}, fmt.Errorf("%.80q is no name of a pool: use up to 64 letters, digits and . _ -, no - first", pool)
	}
	if !imageName.MatchString(name) {
		return Image{}, fmt.Errorf("%.150q is no name of an image: use up to 128 letters, digits and . _ -, no - first", name)
	}
	return Image{pool, name}, nil
}

var handle = regexp.MustCompile(`^([^/]*)/([^/]*)$`)

// ParseImage reads POOL/NAME.
func ParseImage(s string) (Image, error) {
	m := handle.FindStringSubmatch(s)
	if m == nil {
		return Image{}, fmt.Errorf("%.200q is no volume handle: write POOL/IMAGE", s)
	}
	return NewImage(m[1], m[2])
}
