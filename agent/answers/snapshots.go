package answers

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/api"
	"spore/agent/health"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/snapshot"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// snapshotsAtOnce is how many snapshots are handed out at once: one to each other master, and one to the operator.
const snapshotsAtOnce = 8

// snapshotsRow answers with the list of etcd's snapshots, or with one of them, encrypted as it is: masters and the
// operator.
func snapshotsRow(m *node.Machine, c *facts.Cluster, rest string) api.Row {
	return api.Row{
		Method: http.MethodGet, Path: nodeapi.SnapshotsPath + rest, Who: []nodeapi.Role{nodeapi.Node, nodeapi.Admin}, AtOnce: snapshotsAtOnce,
		May: func(caller nodeapi.Caller) error {
			if caller.Is(nodeapi.Admin) || slices.Contains(c.Members["control-plane"], caller.Name) {
				return nil
			}
			return fmt.Errorf("snapshots of etcd are for masters and for the operator; %q is neither", caller.Name)
		},
		Handle: api.Plain(snapshot.Handler(snapshot.Dir{Path: m.Root.At(paths.Snapshots)})),
	}
}

// maxBrought bounds a snapshot that an operator brings, in bytes: more than the largest database that etcd takes
// (quota-backend-bytes). It may take a quarter of what is free.
const maxBrought = 9 << 30

// bringSnapshotRow takes a snapshot from the operator, which the verb etcd-restore finds by its name. One is kept.
func bringSnapshotRow(m *node.Machine, c *facts.Cluster, n *facts.Node) api.Row {
	return api.Row{
		Method: http.MethodPut, Path: nodeapi.SnapshotsPath + "/{name}", Who: nodeapi.Owners(), Body: maxBrought, AtOnce: 1,
		Bound: time.Hour, Traced: true,
		Handle: func(w http.ResponseWriter, r *http.Request, _ nodeapi.Caller) {
			if !slices.Contains(c.Members["control-plane"], n.Name) {
				http.Error(w, n.Name+" is no master, and has no etcd", http.StatusNotFound)
				return
			}
			name, err := nodeapi.ParseSnapshotName(r.PathValue("name"))
			if err == nil {
				err = bring(m.Root.At(paths.BroughtSnapshot), name, r.Body)
			}
			if err != nil {
				m.Say("take a snapshot from the operator: " + err.Error())
				http.Error(w, err.Error(), http.StatusUnprocessableEntity)
				return
			}
			w.WriteHeader(http.StatusCreated)
		},
	}
}

// bring writes a snapshot into a directory that has nothing else then, and holds it to the hash in its name.
func bring(dir string, name nodeapi.SnapshotName, from io.Reader) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove what was brought before: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make room: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("make room: %w", err)
	}
	// A restore makes the database and then its data beside it.
	room := int64(fs.Bavail) * fs.Frsize / 4
	hash := sha256.New()
	return atomicfile.Fill(filepath.Join(dir, name.String()), 0o600, atomicfile.Durable, func(f *os.File) error {
		n, err := io.Copy(io.MultiWriter(f, hash), io.LimitReader(from, room))
		switch {
		case err != nil:
			return fmt.Errorf("the snapshot was cut off: %w", err)
		case n == room:
			return fmt.Errorf("it has more than the %d bytes that are free for it", room)
		case nodeapi.SnapshotHash(hash) != name.Hash:
			return errors.New("it is not the file that its name says: another hash")
		}
		return nil
	})
}

// snapshotsKept are the snapshots of etcd that a master has; nil for another node.
func snapshotsKept(m *node.Machine, c *facts.Cluster, n *facts.Node) *health.Snapshots {
	if !slices.Contains(c.Members["control-plane"], n.Name) {
		return nil
	}
	out := &health.Snapshots{Every: time.Duration(kubernetes.Of(c.Services).AllSnapshots().Every) * time.Minute}
	list, err := snapshot.Dir{Path: m.Root.At(paths.Snapshots)}.List()
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	if e, ok := snapshot.Newest(list, m.Now()); ok {
		out.Count, out.Newest, out.By = len(list), e.Name.Taken, e.Name.Node
	}
	return out
}
