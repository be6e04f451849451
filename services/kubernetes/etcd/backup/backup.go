// Package backup keeps snapshots of this master's etcd, for the unit and for an operator who takes, lists, checks or
// opens one, and makes a new etcd of one when the quorum is lost. Packages snapshot, keeper, sealing and restore have
// the rules.
package backup

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

	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/client"
	"spore/services/kubernetes/etcd/etcdutl"
	"spore/services/kubernetes/etcd/master"
	"spore/services/kubernetes/etcd/snapshot"
	"spore/services/kubernetes/etcd/snapshot/keeper"
	"spore/services/kubernetes/etcd/snapshot/sealing"
	"spore/services/kubernetes/etcd/snapshot/source"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

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

func kept(m *master.Machine) snapshot.Dir { return snapshot.Dir{Path: m.Root.At(paths.Snapshots)} }

// secretOf reads an entry of the bundle that belongs to a program: what the unit was given, or, for root, what lies there.
func secretOf(m *master.Machine, program, ref string) ([]byte, error) {
	path := m.Root.At(filepath.Join(paths.Secrets, program, ref))
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		path = filepath.Join(dir, "secret_"+ref)
	}
	data, err := atomicfile.ReadLimited(path, node.MaxSecret)
	if err != nil {
		return nil, fmt.Errorf("secret %s of this node: %w", ref, err)
	}
	return data, nil
}

// snapshotIdentity is the key for snapshots.
func snapshotIdentity(m *master.Machine) (*age.X25519Identity, error) {
	secret, err := secretOf(m, snapshotProgram, snapshotKey)
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

func mastersBeside(m *master.Machine, c *facts.Cluster) otherMasters {
	return otherMasters{slow: kubernetes.Of(c.Services).Slow(), client: nodeapi.Client{
		Identity: func() (id nodeapi.Identity, err error) {
			if id.Certificate, err = secretOf(m, snapshotProgram, agentLeaf+"-certificate"); err != nil {
				return id, err
			}
			if id.Key, err = secretOf(m, snapshotProgram, agentLeaf+"-key"); err != nil {
				return id, err
			}
			id.Authorities, err = m.Part.Public("agent.crt")
			return id, err
		},
		Addresses: func(node string) ([]string, error) {
			n, err := m.Part.Node(node)
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
func keeperOf(m *master.Machine, c *facts.Cluster, n *facts.Node) (*keeper.Keeper, error) {
	id, err := snapshotIdentity(m)
	if err != nil {
		return nil, err
	}
	s := kubernetes.Of(c.Services).AllSnapshots()
	return &keeper.Keeper{
		Dir: kept(m), Cluster: c.ID, Node: n.Name, Masters: c.Members[masterRole],
		Every: time.Duration(s.Every) * time.Minute, Keep: snapshot.Keep{Newest: s.Keep, Days: s.Days}, Identity: id,
		Etcd: source.Etcd{
			Connect:  func() (*clientv3.Client, error) { return m.Connect(c, client.Own) },
			Endpoint: client.Own, Within: readTime * time.Duration(kubernetes.Of(c.Services).Slow()),
		},
		Tool:  etcdutl.Tool{Path: m.Root.At(etcdutl.Program)},
		Peers: mastersBeside(m, c), Now: time.Now, Say: m.Say, Status: func(string) {},
	}, nil
}

// Run keeps snapshots until it is stopped, for the unit.
func Run(ctx context.Context, m *master.Machine) error {
	c, n, err := m.Master()
	if err != nil {
		return err
	}
	k, err := keeperOf(m, c, n)
	if err != nil {
		return err
	}
	k.Status = func(text string) { m.TellStatus(strings.ReplaceAll(text, "\n", "; ")) }
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		m.Say(err.Error())
	}
	return k.Run(ctx)
}

// Take saves etcd now.
func Take(ctx context.Context, m *master.Machine, out io.Writer) error {
	c, n, err := m.Master()
	if err != nil {
		return err
	}
	k, err := keeperOf(m, c, n)
	if err != nil {
		return err
	}
	name, err := k.Take(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, kept(m).At(name))
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

// List lists what is kept here.
func List(m *master.Machine, out io.Writer, asJSON bool) error {
	list, err := kept(m).List()
	if err != nil {
		return err
	}
	snapshot.Sort(list, time.Now())
	shown := []shownSnapshot{}
	for _, e := range list {
		shown = append(shown, shownSnapshot{kept(m).At(e.Name), e.Name.Taken, e.Name.Node, e.Name.Revision, e.Size})
	}
	if asJSON {
		return json.NewEncoder(out).Encode(shown)
	}
	if len(shown) == 0 {
		fmt.Fprintln(out, "this node has no snapshots of etcd")
	}
	for _, s := range shown {
		fmt.Fprintf(out, "%s  by %-12s revision %-10d %8.1f KiB  %s\n", s.Taken.Format(time.RFC3339), s.Node, s.Revision, float64(s.Size)/(1<<10), filepath.Base(s.File))
	}
	return nil
}

// Check reads and opens all that there is.
func Check(_ context.Context, m *master.Machine, out io.Writer) error {
	c, _, err := m.Master()
	if err != nil {
		return err
	}
	id, err := snapshotIdentity(m)
	if err != nil {
		return err
	}
	list, err := kept(m).List()
	if err != nil {
		return err
	}
	snapshot.Sort(list, time.Now())
	var bad []string
	for _, e := range list {
		_, err := unsealKept(m, e.Name, id, c.ID, io.Discard)
		if err == nil {
			err = kept(m).Check(e.Name)
		}
		how := "is whole, and opens"
		if err != nil {
			how, bad = err.Error(), append(bad, e.Name.String())
		}
		fmt.Fprintf(out, "%s  %s\n", e.Name, how)
	}
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d snapshots cannot be used; remove them", len(bad), len(list))
	}
	return nil
}

// Open decrypts a snapshot into a file that etcdutl takes.
func Open(m *master.Machine, w io.Writer, from, to string) (err error) {
	c, _, err := m.Master()
	if err != nil {
		return err
	}
	id, err := snapshotIdentity(m)
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
	fmt.Fprintf(w, "%s: taken %s by %s, revision %d, %d keys\n", to, h.Taken.Format(time.RFC3339), h.Node, h.Revision, h.Keys)
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
func unsealKept(m *master.Machine, n snapshot.Name, id *age.X25519Identity, clusterID string, to io.Writer) (sealing.Header, error) {
	f, err := kept(m).Open(n)
	if err != nil {
		return sealing.Header{}, fmt.Errorf("open a snapshot: %w", err)
	}
	return unsealFrom(f, kept(m).At(n), id, clusterID, to)
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
