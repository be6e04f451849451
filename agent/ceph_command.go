package main

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

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"spore/agent/atomicfile"
	"spore/agent/ceph"
	"spore/agent/formation"
	"spore/agent/nic"
	"spore/agent/render"
	"spore/cluster/facts"
)

// Files in the runtime directory of a unit of Ceph, which `spore-agent render` wrote.
const (
	cephConfig  = "ceph.conf"
	cephKeyring = "keyring"
)

// cephMonCommand makes the data of this node's monitor, when it is known whether to form a quorum or to join one. It runs as
// root, and Ceph's programs as the owner of the directory that the data lies in.
func cephMonCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent ceph-mon"}
	}
	c, n, err := m.cephNode()
	if err != nil {
		return err
	}
	mons, err := m.cephMonitors(c, n)
	if err != nil {
		return err
	}
	store, err := m.cephStore(n)
	if err != nil {
		return err
	}
	_, err = m.enterQuorum(ctx, formation.CephMon(), store.Empty, func(ctx context.Context, p formation.Plan) error {
		if p.Kind == formation.Form {
			first := slices.DeleteFunc(slices.Clone(mons), func(mon render.CephMonitor) bool { _, forms := p.Members[mon.Name]; return !forms })
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

// cephStore is the data directory of this node's monitor, as the unit has it.
func (m *machine) cephStore(n *facts.Node) (ceph.Store, error) {
	runtime, state := runtimeDirectory("ceph-mon"), os.Getenv("STATE_DIRECTORY")
	if runtime == "" || state == "" {
		return ceph.Store{}, errors.New("RUNTIME_DIRECTORY or STATE_DIRECTORY is not set: this command is for ceph-mon.service")
	}
	fsid, err := unitSecret("ceph-fsid")
	if err != nil {
		return ceph.Store{}, err
	}
	var owner unix.Stat_t
	if err := unix.Stat(state, &owner); err != nil {
		return ceph.Store{}, fmt.Errorf("look whose %s is: %w", state, err)
	}
	say := func(text string) {
		m.say(text)
		m.tellStatus(text)
	}
	return ceph.Store{
		Dir: filepath.Join(state, "ceph-"+n.Name), FSID: strings.TrimSpace(string(fsid)), Name: n.Name,
		Conf: filepath.Join(runtime, cephConfig), Keyring: filepath.Join(runtime, cephKeyring), Scratch: runtime,
		UID: int(owner.Uid), GID: int(owner.Gid), Run: ceph.Exec(&syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}), Say: say,
	}, nil
}

// cephQuorumCommand waits until this node's monitor is one of a quorum.
func cephQuorumCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent ceph-quorum"}
	}
	_, n, err := m.cephNode()
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
		m.say(text)
		m.tellStatus(text)
	}
	if err := ceph.AwaitQuorum(ctx, filepath.Join(runtimeDirectory("ceph-mon"), "mon."+n.Name+".asok"), alive, say); err != nil {
		return err
	}
	m.tellStatus("one of the quorum")
	return nil
}

// cephCommand gives the storage cluster what ceph.yaml says, and ends.
func cephCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent ceph"}
	}
	c, n, err := m.cephNode()
	if err != nil {
		return err
	}
	want, err := ceph.Wanted(c, n.Name, func(ref string) (string, error) {
		data, err := unitSecret(ref)
		return strings.TrimSpace(string(data)), err
	})
	if err != nil {
		return err
	}
	client := ceph.Client{Run: ceph.Exec(nil), Conf: filepath.Join(runtimeDirectory("ceph-bootstrap"), cephConfig), Entity: "mon."}
	if err := ceph.Bootstrap(ctx, ceph.Options{Client: client, Want: want, Say: m.say, Status: m.tellStatus}); err != nil {
		return err
	}
	m.tellStatus("everything is applied")
	return nil
}

// cephNode is the cluster and this node, which has a monitor.
func (m *machine) cephNode() (*facts.Cluster, *facts.Node, error) {
	_, c, n, err := m.node()
	if err != nil {
		return nil, nil, err
	}
	if n == nil || c.Services.Ceph() == nil || !slices.Contains(n.Roles, "ceph-mon") {
		return nil, nil, errors.New("this machine is no node with the role ceph-mon")
	}
	return c, n, nil
}

// cephMonitors lists the monitors of cluster.yaml.
func (m *machine) cephMonitors(c *facts.Cluster, n *facts.Node) ([]render.CephMonitor, error) {
	hosts, err := m.part.Hosts()
	if err != nil {
		return nil, err
	}
	addresses, err := nic.Addresses()
	if err != nil {
		return nil, err
	}
	return render.CephMonitors(render.Input{Cluster: c, Node: n, Hosts: strings.NewReader(string(hosts)), Addresses: addresses})
}

// tellStatus tells systemd what the unit does or waits for.
func (m *machine) tellStatus(text string) {
	if _, err := daemon.SdNotify(false, "STATUS="+strings.ReplaceAll(text, "\n", " ")); err != nil {
		m.say(err.Error())
	}
}

// unitSecret reads a secret that this unit was given.
func unitSecret(ref string) ([]byte, error) {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return nil, errors.New("CREDENTIALS_DIRECTORY is not set: this command is for a unit with LoadCredential=")
	}
	data, err := atomicfile.ReadLimited(filepath.Join(dir, "secret_"+ref), maxSecret)
	if err != nil {
		return nil, fmt.Errorf("secret %s of this unit: %w", ref, err)
	}
	return data, nil
}
