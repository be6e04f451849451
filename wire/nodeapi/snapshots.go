package nodeapi

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// SnapshotName is the name of the file of a snapshot of etcd, which says what is in it to those who cannot open it.
type SnapshotName struct {
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
	snapshotStamp  = "20060102T150405Z"
	snapshotSuffix = ".age"
	snapshotHash   = 16
)

// nodeName is how nodes are called in cluster.yaml, in at most maxNodeName bytes (see unitForm).
var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

const maxNodeName = 128

// String is etcd-TIME-rREVISION-NODE-HASH.age.
func (n SnapshotName) String() string {
	return fmt.Sprintf("etcd-%s-r%d-%s-%s%s", n.Taken.UTC().Format(snapshotStamp), n.Revision, n.Node, n.Hash, snapshotSuffix)
}

// ParseSnapshotName reads a name. A text that is not exactly what String writes is none, so that no name leads out of a directory.
func ParseSnapshotName(s string) (SnapshotName, error) {
	n, err := parseSnapshotName(s)
	if err == nil && n.String() != s {
		err = errors.New("it is not spelled as usual")
	}
	if err != nil {
		return SnapshotName{}, fmt.Errorf("%.200q is not the name of a snapshot: %w", s, err)
	}
	return n, nil
}

func parseSnapshotName(s string) (n SnapshotName, err error) {
	rest, begins := strings.CutPrefix(s, "etcd-")
	rest, ends := strings.CutSuffix(rest, snapshotSuffix)
	when, rest, timed := strings.Cut(rest, "-r")
	revision, rest, numbered := strings.Cut(rest, "-")
	i := strings.LastIndexByte(rest, '-')
	if !begins || !ends || !timed || !numbered || i < 0 {
		return n, errors.New("they are etcd-TIME-rREVISION-NODE-HASH.age")
	}
	if n.Taken, err = time.Parse(snapshotStamp, when); err != nil {
		return n, errors.New("its time is not YYYYMMDDThhmmssZ")
	}
	if n.Revision, err = strconv.ParseInt(revision, 10, 64); err != nil || n.Revision < 0 {
		return n, errors.New("its revision is not a number")
	}
	if n.Node, n.Hash = rest[:i], rest[i+1:]; len(n.Node) > maxNodeName || !nodeName.MatchString(n.Node) {
		return n, errors.New("its node is malformed")
	}
	if b, err := hex.DecodeString(n.Hash); err != nil || len(b) != snapshotHash || strings.ToLower(n.Hash) != n.Hash {
		return n, errors.New("its hash has not 32 hexadecimal digits in lower case")
	}
	return n, nil
}

// SnapshotHash is what the name of a file with this SHA-256 holds.
func SnapshotHash(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)[:snapshotHash]) }

// SnapshotsPath is where the list of snapshots is asked for, and, with a name behind it, one of them.
const SnapshotsPath = "/v1/snapshots"

// Bounds of what a node says of its snapshots.
const (
	maxSnapshotList = 1 << 20
	maxSnapshots    = 4096
	// MaxSnapshot is the size of the largest file in bytes: etcd's largest database, and what encryption adds.
	MaxSnapshot = 9 << 30
)

// Snapshot is a snapshot of etcd that a node has.
type Snapshot struct {
	Name SnapshotName
	// Size is that of its file in bytes.
	Size int64
}

// snapshotList is the answer to a question for the list.
type snapshotList struct {
	Snapshots []snapshotEntry `json:"snapshots"`
}

type snapshotEntry struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// EncodeSnapshots is the answer to a question for the list.
func EncodeSnapshots(list []Snapshot) []byte {
	out := snapshotList{Snapshots: []snapshotEntry{}}
	for _, e := range list {
		out.Snapshots = append(out.Snapshots, snapshotEntry{e.Name.String(), e.Size})
	}
	data, _ := json.Marshal(out) // strings and numbers cannot fail
	return append(data, '\n')
}

// ReadSnapshots reads the answer to a question for the list.
func ReadSnapshots(r io.Reader) ([]Snapshot, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSnapshotList+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSnapshotList {
		return nil, fmt.Errorf("the list has more than %d bytes", maxSnapshotList)
	}
	var l snapshotList
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, fmt.Errorf("read the list: %w", err)
	}
	if len(l.Snapshots) > maxSnapshots {
		return nil, fmt.Errorf("the list has more than %d entries", maxSnapshots)
	}
	var out []Snapshot
	seen := map[string]bool{}
	for _, e := range l.Snapshots {
		name, err := ParseSnapshotName(e.Name)
		if err != nil {
			return nil, err
		}
		if e.Size <= 0 || e.Size > MaxSnapshot {
			return nil, fmt.Errorf("snapshot %s has %d bytes", name, e.Size)
		}
		if seen[e.Name] {
			return nil, fmt.Errorf("snapshot %s is listed twice", name)
		}
		seen[e.Name] = true
		out = append(out, Snapshot{name, e.Size})
	}
	return out, nil
}
