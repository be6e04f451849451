// Package clean is the verbs clean and clean-given-up: room is made on /var. The first removes what the node makes
// again or can do without: old journals, dumps of programs that crashed, pieces of updates that are kept for other
// nodes. The second removes data that a service has given up and that was kept beside its own (spore etcd restore and
// forget, spore quorum form and forget).
//
// It leaves alone what has an owner that makes room by itself: images of containers and logs of pods (the kubelet),
// snapshots (etcd-snapshot), and all data of services.
package clean

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/share"
	"spore/agent/verbs"
)

const (
	mib = 1 << 20
	// keepJournal is how much of the journal stays, in MiB, where nobody says it.
	keepJournal = "64"
	// maxLooked bounds how many files are looked at, for who takes the room.
	maxLooked = 500_000
	// maxFolders is how many of those that take most are named.
	maxFolders = 12
	// maxThings is how many of those that are removed are named: an answer has a bound (nodeapi.MaxEvent).
	maxThings = 1000
	// maxFailed is how many of those that could not be removed are named.
	maxFailed = 10
)

// Thing is what is removed: a file or a folder.
type Thing struct {
	Path string `json:"path"`
	// About is what it is.
	About string `json:"about"`
	// Bytes are those that it takes on the disk.
	Bytes int64 `json:"bytes"`
}

// Answer is the result of both verbs.
type Answer struct {
	// Things are those that were removed, or would be; the first thousand of them.
	Things []Thing `json:"things"`
	// Folders are those of /var that take most, at first.
	Folders []Thing `json:"folders,omitempty"`
	// Size and Free are those of /var in bytes, in the end.
	Size int64 `json:"size"`
	Free int64 `json:"free"`
}

// Clean removes what the node can do without.
func Clean(ctx context.Context, r *verbs.Run) (string, error) {
	keep, err := strconv.ParseInt(r.Argument("journal", keepJournal), 10, 64)
	if err != nil {
		return "", fmt.Errorf("internal error: %w", err)
	}
	return carryOut(ctx, r, slices.Concat(journals(r.Machine, keep*mib), dumps(r.Machine), fetched(r.Machine)))
}

// GivenUp removes data that a service has given up.
func GivenUp(ctx context.Context, r *verbs.Run) (string, error) {
	if !r.Order.DryRun && r.Order.Confirm != r.Node.Name {
		return "", fmt.Errorf("this deletes former data of %s, and the order is about %q; nothing was deleted",
			r.Node.Name, r.Order.Confirm)
	}
	if !r.Order.DryRun {
		// They put data aside, and put it back where they fail.
		end, err := r.Without("etcd", "quorum")
		if err != nil {
			return "", err
		}
		defer end()
	}
	return carryOut(ctx, r, givenUp(r.Machine))
}

func carryOut(ctx context.Context, r *verbs.Run, things []Thing) (string, error) {
	a := Answer{Things: []Thing{}, Folders: folders(ctx, r.Machine)}
	count, sum := 0, int64(0)
	var failed []error
	for _, t := range things {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if !r.Order.DryRun {
			if err := remove(r.Machine, t.Path); err != nil {
				failed = append(failed, err)
				continue
			}
		}
		count, sum = count+1, sum+t.Bytes
		if count <= maxThings {
			a.Things = append(a.Things, t)
		}
	}
	var v unix.Statfs_t
	if err := unix.Statfs(r.Machine.Root.At("/var"), &v); err != nil {
		return "", fmt.Errorf("ask how full /var is: %w", err)
	}
	a.Size, a.Free = int64(v.Blocks)*v.Bsize, int64(v.Bavail)*v.Bsize
	if err := r.Result(a); err != nil {
		return "", err
	}
	if len(failed) > maxFailed {
		failed = append(failed[:maxFailed:maxFailed], fmt.Errorf("and %d more", len(failed)-maxFailed))
	}
	if len(failed) > 0 {
		return "", errors.Join(failed...)
	}
	room := fmt.Sprintf("/var has %d of %d MiB free", a.Free/mib, a.Size/mib)
	if r.Order.DryRun {
		return fmt.Sprintf("would remove %d files and folders with %d MiB; %s; nothing was removed",
			count, sum/mib, room), nil
	}
	return fmt.Sprintf("removed %d files and folders with %d MiB; %s", count, sum/mib, room), nil
}

// remove deletes a file or a folder, and follows no link on the way below its own directory.
func remove(m *node.Machine, path string) error {
	dir, err := os.OpenRoot(m.Root.At(filepath.Dir(path)))
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	defer dir.Close()
	if err := dir.RemoveAll(filepath.Base(path)); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// journals are the files that journald has closed, the oldest first, as many as are more than a bound in bytes. Those
// that it writes to count, and stay (systemd, sd-journal: NAME@ID-SEQUENCE-TIME.journal, and .journal~ after a crash).
func journals(m *node.Machine, keep int64) []Thing {
	type file struct {
		Thing
		changed int64
	}
	var closed []file
	have := int64(0)
	for _, path := range found(m, "/var/log/journal/*/*.journal*") {
		info, err := os.Lstat(m.Root.At(path))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		size := taken(info)
		have += size
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".journal~") || strings.Contains(name, "@") && strings.HasSuffix(name, ".journal") {
			closed = append(closed, file{Thing{path, "closed journal", size}, info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(closed, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.changed, b.changed), cmp.Compare(a.Path, b.Path))
	})
	var out []Thing
	for _, f := range closed {
		if have <= keep {
			break
		}
		out, have = append(out, f.Thing), have-f.Bytes
	}
	return out
}

// dumps are those of programs that crashed.
func dumps(m *node.Machine) []Thing {
	return measured(m, "dump of a program", "/var/lib/systemd/coredump/*")
}

// fetched are pieces of an update, once the node needs none of them any more: other nodes get them elsewhere.
func fetched(m *node.Machine) []Thing {
	shelf := share.Shelf{Dir: m.Root.At(paths.FetchedPieces)}
	if _, of := shelf.Of(); !shelf.Ended(of) {
		return nil // There are none, or the node still fetches.
	}
	return measured(m, "pieces of an update, kept for other nodes", paths.FetchedPieces+"/"+share.Pieces)
}

// givenUp is where data lies that was put aside (agent/verbs/quorum, services/kubernetes/etcd/restore).
func givenUp(m *node.Machine) []Thing {
	return measured(m, "former data",
		paths.Etcd+"/given-up-*", paths.Etcd+"/*.given-up*", "/var/lib/kafka/*.given-up*", "/var/lib/ceph/mon/*.given-up*")
}

// measured are the files and folders that patterns match.
func measured(m *node.Machine, about string, patterns ...string) (out []Thing) {
	for _, pattern := range patterns {
		for _, path := range found(m, pattern) {
			left := maxLooked
			out = append(out, Thing{path, about, size(context.Background(), m.Root.At(path), &left)})
		}
	}
	slices.SortFunc(out, func(a, b Thing) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(out, func(a, b Thing) bool { return a.Path == b.Path })
}

// found are the paths of the machine that a pattern matches.
func found(m *node.Machine, pattern string) (out []string) {
	list, _ := filepath.Glob(m.Root.At(pattern)) // The patterns are those above.
	root := strings.TrimSuffix(m.Root.At("/"), "/")
	for _, path := range list {
		out = append(out, strings.TrimPrefix(path, root))
	}
	return out
}

// folders are those that take most, each a MiB at least.
func folders(ctx context.Context, m *node.Machine) (out []Thing) {
	left := maxLooked
	for _, pattern := range []string{"/var/*", "/var/lib/*", "/var/log/*", "/var/cache/*"} {
		for _, path := range found(m, pattern) {
			if slices.Contains([]string{"/var/lib", "/var/log", "/var/cache"}, path) {
				continue
			}
			if n := size(ctx, m.Root.At(path), &left); n >= mib {
				out = append(out, Thing{Path: path, Bytes: n})
			}
		}
	}
	slices.SortFunc(out, func(a, b Thing) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Path, b.Path))
	})
	return out[:min(len(out), maxFolders)]
}

// size is how many bytes a file or a folder takes on its file system. What is mounted below it does not count.
func size(ctx context.Context, path string, left *int) (sum int64) {
	first, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	device := deviceOf(first)
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if *left--; *left < 0 || ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil {
			return nil // What cannot be read, or is gone, is not counted.
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		if deviceOf(info) != device {
			return fs.SkipDir
		}
		sum += taken(info)
		return nil
	})
	return sum
}

func deviceOf(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Dev
	}
	return 0
}

// taken is how many bytes a file takes on the disk.
func taken(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}
