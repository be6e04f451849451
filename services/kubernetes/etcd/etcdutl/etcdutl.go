// Package etcdutl runs etcdutl, which comes with etcd and knows the files of its release. Its library would bring the whole
// of etcd's server into our program.
package etcdutl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Program is where images have it.
const Program = "/usr/bin/etcdutl"

// Tool is one etcdutl.
type Tool struct {
	// Path is Program but in tests.
	Path string
}

// Status is what it says of a snapshot.
type Status struct {
	Revision int64 `json:"revision"`
	// Keys is how many there are, with those that were deleted and not compacted yet.
	Keys int `json:"totalKey"`
}

// Status opens a snapshot as etcd would, checks its pages and reads all its keys.
func (t Tool) Status(ctx context.Context, file string) (Status, error) {
	out, err := t.run(ctx, "snapshot", "status", file, "--write-out", "json")
	if err != nil {
		return Status{}, fmt.Errorf("check a snapshot of etcd: %w", err)
	}
	return parseStatus(out)
}

func parseStatus(out []byte) (s Status, err error) {
	if err := json.Unmarshal(out, &s); err != nil {
		return s, fmt.Errorf("check a snapshot of etcd: read what etcdutl says: %w", err)
	}
	if s.Revision <= 0 || s.Keys < 0 {
		return s, fmt.Errorf("check a snapshot of etcd: its revision is %d and it has %d keys", s.Revision, s.Keys)
	}
	return s, nil
}

// Restore is how a snapshot becomes the data of a member.
type Restore struct {
	// Snapshot is the file that etcd gave out, Data the directory that is made.
	Snapshot, Data string
	// Member is the name of the only member, Peer its URL for others; Token tells its cluster from every other one.
	Member, Peer, Token string
	// Bump is by how much the revision grows. What is before that counts as compacted: whoever watched the former cluster
	// has to list again, where it would otherwise wait for revisions that come a second time, with something else in them.
	Bump uint64
}

// Restore makes the data of the only member of a new cluster. It compares the snapshot with the hash at its end.
func (t Tool) Restore(ctx context.Context, r Restore) error {
	_, err := t.run(ctx, "snapshot", "restore", r.Snapshot, "--data-dir", r.Data, "--name", r.Member,
		"--initial-cluster", r.Member+"="+r.Peer, "--initial-advertise-peer-urls", r.Peer, "--initial-cluster-token", r.Token,
		"--bump-revision", strconv.FormatUint(r.Bump, 10), "--mark-compacted")
	if err != nil {
		return fmt.Errorf("restore a snapshot of etcd: %w", err)
	}
	return nil
}

func (t Tool) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, t.Path, args...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(problem.String())
		if i := strings.LastIndexByte(text, '\n'); i >= 0 { // what is before is its log
			text = text[i+1:]
		}
		return nil, fmt.Errorf("%s: %w: %.1000s", t.Path, err, text)
	}
	return out.Bytes(), nil
}
