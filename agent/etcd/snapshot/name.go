package snapshot

import (
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Name is the name of a snapshot's file, which says what is in it to those who cannot open it.
type Name struct {
	// Taken is when it was taken, to the second.
	Taken time.Time
	// Revision is that of the newest key in it.
	Revision int64
	// Node is the master that took it.
	Node string
	// Hash is the first half of the file's SHA-256, as 32 hexadecimal digits.
	Hash string
}

const (
	stamp     = "20060102T150405Z"
	suffix    = ".age"
	hashBytes = 16
)

// nodeName is how nodes are called in cluster.yaml.
var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,126}[a-z0-9])?$`)

// String is etcd-TIME-rREVISION-NODE-HASH.age.
func (n Name) String() string {
	return fmt.Sprintf("etcd-%s-r%d-%s-%s%s", n.Taken.UTC().Format(stamp), n.Revision, n.Node, n.Hash, suffix)
}

// Parse reads a name. A text that is not exactly what String writes is none, so that no name leads out of a directory.
func Parse(s string) (Name, error) {
	n, err := parse(s)
	if err == nil && n.String() != s {
		err = errors.New("it is not spelled as usual")
	}
	if err != nil {
		return Name{}, fmt.Errorf("%.200q is not the name of a snapshot: %w", s, err)
	}
	return n, nil
}

func parse(s string) (n Name, err error) {
	rest, begins := strings.CutPrefix(s, "etcd-")
	rest, ends := strings.CutSuffix(rest, suffix)
	when, rest, timed := strings.Cut(rest, "-r")
	revision, rest, numbered := strings.Cut(rest, "-")
	i := strings.LastIndexByte(rest, '-')
	if !begins || !ends || !timed || !numbered || i < 0 {
		return n, errors.New("they are etcd-TIME-rREVISION-NODE-HASH.age")
	}
	if n.Taken, err = time.Parse(stamp, when); err != nil {
		return n, errors.New("its time is not YYYYMMDDThhmmssZ")
	}
	if n.Revision, err = strconv.ParseInt(revision, 10, 64); err != nil || n.Revision < 0 {
		return n, errors.New("its revision is no number")
	}
	if n.Node, n.Hash = rest[:i], rest[i+1:]; !nodeName.MatchString(n.Node) {
		return n, errors.New("its node is none")
	}
	if b, err := hex.DecodeString(n.Hash); err != nil || len(b) != hashBytes || strings.ToLower(n.Hash) != n.Hash {
		return n, errors.New("its hash has not 32 hexadecimal digits in lower case")
	}
	return n, nil
}
