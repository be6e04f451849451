package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/coreos/go-systemd/v22/daemon"
	clientv3 "go.etcd.io/etcd/client/v3"

	"spore/agent/atomicfile"
	"spore/agent/etcd/client"
	"spore/agent/etcd/etcdutl"
	"spore/agent/etcd/snapshot"
	"spore/agent/etcd/snapshot/keeper"
	"spore/agent/etcd/snapshot/sealing"
	"spore/agent/etcd/snapshot/source"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

const snapshotUsage = "usage: spore-agent etcd snapshot take | list [--json] | check | open FILE OUT"

const (
	// snapshotProgram is the program whose secrets root's commands share.
	snapshotProgram = "etcd-snapshot"
	// snapshotKey is the entry of the key for snapshots.
	snapshotKey = "etcd-snapshot-key"
	// agentLeaf is the certificate by which other masters are asked.
	agentLeaf = "agent"
	// masterRole is the role of masters.
	masterRole = "control-plane"
	// readTime bounds one question to etcd, on a machine of usual speed.
	readTime = 10 * time.Second
	// askTime bounds one question to another master, without what it has to send.
	askTime = 10 * time.Second
)

// snapshotCommand keeps snapshots until it is stopped (run, for the unit), or does once what an operator wants.
func snapshotCommand(ctx context.Context, m *machine, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "run":
		return runSnapshots(ctx, m)
	case len(args) == 1 && args[0] == "take":
		return takeSnapshot(ctx, m)
	case len(args) > 0 && args[0] == "list" && (len(args) == 1 || len(args) == 2 && args[1] == "--json"):
		return listSnapshots(m, len(args) == 2)
	case len(args) == 1 && args[0] == "check":
		return checkSnapshots(m)
	case len(args) == 3 && args[0] == "open":
		return openSnapshot(m, args[1], args[2])
	}
	return usageError{snapshotUsage}
}

func (m *machine) snapshots() snapshot.Dir { return snapshot.Dir{Path: m.root.At(paths.Snapshots)} }

// secretOf reads an entry of the bundle that belongs to a program: what the unit was given, or, for root, what lies there.
func (m *machine) secretOf(program, ref string) ([]byte, error) {
	path := m.root.At(filepath.Join(paths.Secrets, program, ref))
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		path = filepath.Join(dir, "secret_"+ref)
	}
	data, err := atomicfile.ReadLimited(path, maxSecret)
	if err != nil {
		return nil, fmt.Errorf("secret %s of this node: %w", ref, err)
	}
	return data, nil
}

// snapshotIdentity is the key for snapshots.
func (m *machine) snapshotIdentity() (*age.X25519Identity, error) {
	secret, err := m.secretOf(snapshotProgram, snapshotKey)
	if err != nil {
		return nil, err
	}
	return sealing.Identity(secret)
}

// otherMasters asks them by their node API.
type otherMasters struct {
	client nodeapi.Client
	slow   int
}

func (m *machine) otherMasters(c *facts.Cluster) otherMasters {
	return otherMasters{slow: c.Services.Kubernetes().Slow(), client: nodeapi.Client{
		Identity: func() (id nodeapi.Identity, err error) {
			if id.Certificate, err = m.secretOf(snapshotProgram, agentLeaf+"-certificate"); err != nil {
				return id, err
			}
			if id.Key, err = m.secretOf(snapshotProgram, agentLeaf+"-key"); err != nil {
				return id, err
			}
			id.Authorities, err = m.part.Public("agent.crt")
			return id, err
		},
		Addresses: func(node string) ([]string, error) {
			n, err := m.part.Node(node)
			if err != nil {
				return nil, err
			}
			return n.IPs, nil
		},
	}}
}

// Get implements snapshot.Peers. What is got may be large: it has time as long as it comes.
func (o otherMasters) Get(ctx context.Context, node, path string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	wait := askTime * time.Duration(o.slow)
	idle := time.AfterFunc(wait, cancel)
	body, err := o.client.Ask(ctx, node, nodeapi.Request{Path: path})
	if err != nil {
		if !idle.Stop() {
			err = errors.New("no answer in time")
		}
		cancel()
		return nil, err
	}
	return &patient{ReadCloser: body, idle: idle, wait: wait, cancel: cancel}, nil
}

// patient is a body that is read as long as anything comes.
type patient struct {
	io.ReadCloser
	idle   *time.Timer
	wait   time.Duration
	cancel context.CancelFunc
}

func (p *patient) Read(b []byte) (int, error) {
	p.idle.Reset(p.wait)
	return p.ReadCloser.Read(b)
}

func (p *patient) Close() error {
	p.idle.Stop()
	p.cancel()
	return p.ReadCloser.Close()
}

// keeper is what keeps the snapshots of this master.
func (m *machine) keeper(c *facts.Cluster, n *facts.Node) (*keeper.Keeper, error) {
	id, err := m.snapshotIdentity()
	if err != nil {
		return nil, err
	}
	s := c.Services.Kubernetes().AllSnapshots()
	return &keeper.Keeper{
		Dir: m.snapshots(), Cluster: c.ID, Node: n.Name, Masters: c.Members[masterRole],
		Every: time.Duration(s.Every) * time.Minute, Keep: snapshot.Keep{Newest: s.Keep, Days: s.Days}, Identity: id,
		Etcd: source.Etcd{
			Connect:  func() (*clientv3.Client, error) { return m.connect(c, client.Own) },
			Endpoint: client.Own, Within: readTime * time.Duration(c.Services.Kubernetes().Slow()),
		},
		Tool:  etcdutl.Tool{Path: m.root.At(etcdutl.Program)},
		Peers: m.otherMasters(c), Now: time.Now, Say: m.say, Status: func(string) {},
	}, nil
}

func runSnapshots(ctx context.Context, m *machine) error {
	c, n, err := m.master()
	if err != nil {
		return err
	}
	k, err := m.keeper(c, n)
	if err != nil {
		return err
	}
	k.Status = func(text string) {
		if _, err := daemon.SdNotify(false, "STATUS="+strings.ReplaceAll(text, "\n", "; ")); err != nil {
			m.say(err.Error())
		}
	}
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		m.say(err.Error())
	}
	return k.Run(ctx)
}

func takeSnapshot(ctx context.Context, m *machine) error {
	c, n, err := m.master()
	if err != nil {
		return err
	}
	k, err := m.keeper(c, n)
	if err != nil {
		return err
	}
	name, err := k.Take(ctx)
	if err != nil {
		return err
	}
	fmt.Println(m.snapshots().At(name))
	return nil
}

// shownSnapshot is a snapshot as it is shown.
type shownSnapshot struct {
	File     string    `json:"file"`
	Taken    time.Time `json:"taken"`
	Node     string    `json:"node"`
	Revision int64     `json:"revision"`
	// Size is in bytes.
	Size int64 `json:"size"`
}

func listSnapshots(m *machine, asJSON bool) error {
	list, err := m.snapshots().List()
	if err != nil {
		return err
	}
	snapshot.Sort(list, time.Now())
	shown := []shownSnapshot{}
	for _, e := range list {
		shown = append(shown, shownSnapshot{m.snapshots().At(e.Name), e.Name.Taken, e.Name.Node, e.Name.Revision, e.Size})
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(shown)
	}
	if len(shown) == 0 {
		fmt.Println("this node has no snapshots of etcd")
	}
	for _, s := range shown {
		fmt.Printf("%s  by %-12s revision %-10d %8.1f KiB  %s\n", s.Taken.Format(time.RFC3339), s.Node, s.Revision, float64(s.Size)/(1<<10), filepath.Base(s.File))
	}
	return nil
}

// checkSnapshots reads and opens all that there is.
func checkSnapshots(m *machine) error {
	c, _, err := m.master()
	if err != nil {
		return err
	}
	id, err := m.snapshotIdentity()
	if err != nil {
		return err
	}
	list, err := m.snapshots().List()
	if err != nil {
		return err
	}
	snapshot.Sort(list, time.Now())
	var bad []string
	for _, e := range list {
		_, err := m.unsealKept(e.Name, id, c.ID, io.Discard)
		if err == nil {
			err = m.snapshots().Check(e.Name)
		}
		how := "is whole, and opens"
		if err != nil {
			how, bad = err.Error(), append(bad, e.Name.String())
		}
		fmt.Printf("%s  %s\n", e.Name, how)
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d snapshots cannot be used; remove them", len(bad), len(list))
	}
	return nil
}

// openSnapshot decrypts a snapshot into a file that etcdutl takes.
func openSnapshot(m *machine, from, to string) (err error) {
	c, _, err := m.master()
	if err != nil {
		return err
	}
	id, err := m.snapshotIdentity()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open a snapshot: %w", err)
	}
	h, err := unseal(from, id, c.ID, out)
	err = errors.Join(err, out.Close())
	if err != nil {
		return errors.Join(err, os.Remove(to))
	}
	fmt.Printf("%s: taken %s by %s, revision %d, %d keys\n", to, h.Taken.Format(time.RFC3339), h.Node, h.Revision, h.Keys)
	return nil
}

// unseal opens a snapshot of this cluster.
func unseal(path string, id *age.X25519Identity, clusterID string, to io.Writer) (sealing.Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return sealing.Header{}, fmt.Errorf("open a snapshot: %w", err)
	}
	return unsealFrom(f, path, id, clusterID, to)
}

// unsealKept opens one of this master's.
func (m *machine) unsealKept(n snapshot.Name, id *age.X25519Identity, clusterID string, to io.Writer) (sealing.Header, error) {
	f, err := m.snapshots().Open(n)
	if err != nil {
		return sealing.Header{}, fmt.Errorf("open a snapshot: %w", err)
	}
	return unsealFrom(f, m.snapshots().At(n), id, clusterID, to)
}

func unsealFrom(f *os.File, path string, id *age.X25519Identity, clusterID string, to io.Writer) (sealing.Header, error) {
	defer f.Close()
	h, db, err := sealing.Open(f, id)
	if err != nil {
		return h, fmt.Errorf("%s: %w", path, err)
	}
	defer db.Close()
	if h.Cluster != clusterID {
		return h, fmt.Errorf("%s is a snapshot of cluster %s, and this is %s", path, h.Cluster, clusterID)
	}
	if _, err := io.Copy(to, db); err != nil {
		return h, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// others lists the masters but this one.
func others(c *facts.Cluster, n *facts.Node) []string {
	return slices.DeleteFunc(slices.Clone(c.Members[masterRole]), func(name string) bool { return name == n.Name })
}
