// Package unit is what the units of Ceph run besides Ceph: the data of the node's monitor is made before it starts, its
// start is over when it is one of a quorum, the storage cluster gets what ceph.yaml says, and the OSD of each disk is
// made, or prepared for its start. Packages monitor and osd speak to Ceph; only nodes link this one.
package unit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"spore/agent/detect"
	"spore/agent/formation"
	"spore/agent/formation/quorum"
	"spore/agent/nic"
	"spore/agent/node"
	"spore/cluster/facts"
	"spore/services/ceph"
	"spore/services/ceph/monitor"
	cephnode "spore/services/ceph/node"
	"spore/services/rendering"
)

// Files in the runtime directory of a unit of Ceph, which `spore-agent render` wrote.
const (
	configuration = "ceph.conf"
	keyring       = "keyring"
)

// Monitor makes the data of this node's monitor, when it is known whether to form a quorum or to join one. It runs as
// root, and Ceph's programs as the owner of the directory that the data lies in.
func Monitor(ctx context.Context, m *node.Machine) error {
	c, n, err := self(m)
	if err != nil {
		return err
	}
	mons, err := monitors(m, c, n)
	if err != nil {
		return err
	}
	store, err := store(m, n)
	if err != nil {
		return err
	}
	_, err = quorum.Enter(ctx, m, ceph.MonQuorum(), store.Empty, func(ctx context.Context, p formation.Plan) error {
		if p.Kind == formation.Form {
			first := slices.DeleteFunc(slices.Clone(mons), func(mon cephnode.Monitor) bool { _, forms := p.Members[mon.Name]; return !forms })
			return store.Form(ctx, first)
		}
		var others []string
		for _, mon := range mons {
			if mon.Name != n.Name {
				others = append(others, mon.Name)
			}
		}
		return store.Join(ctx, others)
	})
	if err != nil {
		return err
	}
	return store.Check()
}

// store is the data directory of this node's monitor, as the unit has it.
func store(m *node.Machine, n *facts.Node) (monitor.Store, error) {
	runtime, state := node.RuntimeDirectory("ceph-mon"), os.Getenv("STATE_DIRECTORY")
	if runtime == "" || state == "" {
		return monitor.Store{}, errors.New("RUNTIME_DIRECTORY or STATE_DIRECTORY is not set: this command is for ceph-mon.service")
	}
	fsid, err := node.Secret("ceph-fsid")
	if err != nil {
		return monitor.Store{}, err
	}
	var owner unix.Stat_t
	if err := unix.Stat(state, &owner); err != nil {
		return monitor.Store{}, fmt.Errorf("look whose %s is: %w", state, err)
	}
	say := func(text string) {
		m.Say(text)
		m.TellStatus(text)
	}
	return monitor.Store{
		Dir: filepath.Join(state, "ceph-"+n.Name), FSID: strings.TrimSpace(string(fsid)), Name: n.Name,
		Conf: filepath.Join(runtime, configuration), Keyring: filepath.Join(runtime, keyring), Scratch: runtime,
		UID: int(owner.Uid), GID: int(owner.Gid), Run: monitor.Exec(&syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}), Say: say,
	}, nil
}

// Quorum waits until this node's monitor is one of a quorum.
func Quorum(ctx context.Context, m *node.Machine) error {
	_, n, err := self(m)
	if err != nil {
		return err
	}
	// systemd.exec(5), "Environment Variables Set or Propagated by the Service Manager".
	pid, err := strconv.Atoi(os.Getenv("MAINPID"))
	if err != nil {
		return errors.New("MAINPID is not set: this command is for ExecStartPost= of ceph-mon.service")
	}
	alive := func() bool { return unix.Kill(pid, 0) == nil }
	say := func(text string) {
		m.Say(text)
		m.TellStatus(text)
	}
	if err := monitor.AwaitQuorum(ctx, filepath.Join(node.RuntimeDirectory("ceph-mon"), "mon."+n.Name+".asok"), alive, say); err != nil {
		return err
	}
	m.TellStatus("one of the quorum")
	return nil
}

// Bootstrap gives the storage cluster what ceph.yaml says, and ends.
func Bootstrap(ctx context.Context, m *node.Machine) error {
	c, n, err := self(m)
	if err != nil {
		return err
	}
	want, err := monitor.Wanted(c, n.Name, func(ref string) (string, error) {
		data, err := node.Secret(ref)
		return strings.TrimSpace(string(data)), err
	})
	if err != nil {
		return err
	}
	client := monitor.Client{Run: monitor.Exec(nil), Conf: filepath.Join(node.RuntimeDirectory("ceph-bootstrap"), configuration), Entity: "mon."}
	if err := monitor.Bootstrap(ctx, monitor.Options{Client: client, Want: want, Say: m.Say, Status: m.TellStatus}); err != nil {
		return err
	}
	m.TellStatus("everything is applied")
	return nil
}

// self is the cluster and this node, which has a monitor.
func self(m *node.Machine) (*facts.Cluster, *facts.Node, error) {
	_, c, n, err := m.Node()
	if err != nil {
		return nil, nil, err
	}
	if n == nil || !c.Services.Has("ceph") || !slices.Contains(n.Roles, "ceph-mon") {
		return nil, nil, fmt.Errorf("%w with the role ceph-mon", detect.ErrUnmatched)
	}
	return c, n, nil
}

// monitors lists the monitors of cluster.yaml.
func monitors(m *node.Machine, c *facts.Cluster, n *facts.Node) ([]cephnode.Monitor, error) {
	hosts, err := m.Part.Hosts()
	if err != nil {
		return nil, err
	}
	addresses, err := nic.Addresses()
	if err != nil {
		return nil, err
	}
	return cephnode.Monitors(rendering.Input{Cluster: c, Node: n, Hosts: strings.NewReader(string(hosts)), Addresses: addresses})
}
