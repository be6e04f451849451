// Package unit is what etcd.service runs before etcd: this master's member is made such that it may start. Where the
// others have to be asked, it goes on as spore-etcd, which alone speaks to etcd.
package unit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"spore/agent/formation"
	"spore/agent/formation/quorum"
	"spore/agent/nic"
	"spore/agent/node"
	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/origin"
	"spore/services/kubernetes/etcd/restore"
	kubernetesnode "spore/services/kubernetes/node"
	"spore/storage/atomicfile"
)

// Files of etcd.service in its runtime directory and of this boot.
const (
	// several exists while there are, or may be, other members: etcd-members.service is for them.
	several = "several"
	// tried exists when etcd was started in this boot before.
	tried = "/run/spore/etcd-tried"
)

// Member makes this master's member of etcd such that it may start, when it is known whether to form a quorum or to
// join the one that is there. It runs as root. Where the others have to be asked, it goes on as spore-etcd.
func Member(ctx context.Context, m *node.Machine) error {
	runtime, state := node.RuntimeDirectory("etcd"), os.Getenv("STATE_DIRECTORY")
	if runtime == "" || state == "" {
		return errors.New("RUNTIME_DIRECTORY or STATE_DIRECTORY is not set: this command is for etcd.service")
	}
	if restore.Pending(m.Root) {
		if err := node.Exec(ctx, nil, program, "restore", "--resume"); err != nil {
			return fmt.Errorf("finish the restore of etcd: %w", err)
		}
	}
	c, n, err := m.Self()
	if err != nil {
		return err
	}
	masters := kubernetes.EtcdQuorum().Initial(c)
	if !slices.Contains(masters, n.Name) {
		return fmt.Errorf("%s has not the role control-plane in cluster.yaml", n.Name)
	}
	dir := origin.Dir(filepath.Join(state, filepath.Base(origin.Data)))
	o, err := enter(ctx, m, c, n, masters, dir)
	if err != nil {
		return err
	}
	alone := len(masters) == 1 && o != nil && o.Alone
	if o != nil && o.Alone && !alone {
		o.Alone = false
		if err := dir.Write(*o); err != nil {
			return err
		}
	}
	if alone {
		return nil
	}
	if _, err := atomicfile.Write(filepath.Join(runtime, several), nil, 0o644); err != nil {
		return err
	}
	again, err := triedBefore(m)
	if err != nil {
		return err
	}
	// A member that formed knows the others. One that joins has to be let in by them first; and one whose etcd ended may have
	// been removed.
	if again || o != nil && o.Kind == formation.Join && !o.Ran {
		return fmt.Errorf("go on as %s: %w", program, syscall.Exec(program, []string{program, "enter"}, os.Environ()))
	}
	return nil
}

// enter has the gate decide, and returns how the data began that is there then; nil when that is not known.
func enter(ctx context.Context, m *node.Machine, c *facts.Cluster, n *facts.Node, masters []string, dir origin.Dir) (*origin.Origin, error) {
	var owner unix.Stat_t
	if err := unix.Stat(filepath.Dir(string(dir)), &owner); err != nil {
		return nil, fmt.Errorf("look whose the data of etcd is: %w", err)
	}
	_, err := quorum.Enter(ctx, m, kubernetes.EtcdQuorum(), dir.Settle, func(_ context.Context, p formation.Plan) error {
		o := origin.Origin{Kind: p.Kind, Nonce: p.Nonce}
		if p.Kind == formation.Form {
			o.Token, o.Alone = origin.Token(c.ID, p.Members), len(p.Members) == 1 && len(masters) == 1
			var err error
			if o.Members, err = peersOf(m, n, p.Names()); err != nil {
				return err
			}
		}
		return dir.Make(o, int(owner.Uid), int(owner.Gid))
	})
	if err != nil {
		return nil, err
	}
	return dir.Read()
}

// peersOf is where the members find each other. A node without an address in cluster.yaml has one that only itself knows.
func peersOf(m *node.Machine, self *facts.Node, names []string) (map[string][]string, error) {
	own, err := nic.Addresses()
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, name := range names {
		n, addresses := self, own
		if name != self.Name {
			addresses = nil
			if n, err = m.Part.Node(name); err != nil {
				return nil, err
			}
		}
		peer, err := kubernetesnode.EtcdPeer(n, addresses)
		if err != nil {
			return nil, fmt.Errorf("master %s: %w", name, err)
		}
		out[name] = []string{peer}
	}
	return out, nil
}

// triedBefore notes that etcd is about to be started, and tells whether it was in this boot.
func triedBefore(m *node.Machine) (bool, error) {
	path := m.Root.At(tried)
	if _, err := os.Stat(path); err == nil {
		return true, nil
	}
	_, err := atomicfile.Write(path, nil, 0o644)
	return false, err
}
