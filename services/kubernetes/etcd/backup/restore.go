package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"

	"spore/agent/formation"
	"spore/agent/paths"
	"spore/agent/pause"
	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/client"
	"spore/services/kubernetes/etcd/etcdutl"
	"spore/services/kubernetes/etcd/master"
	"spore/services/kubernetes/etcd/restore"
	"spore/services/kubernetes/etcd/snapshot"
	"spore/services/kubernetes/etcd/snapshot/sealing"
	"spore/services/kubernetes/etcd/snapshot/source"
)

const (
	etcdUnit = "etcd.service"
	apiUnit  = "kube-apiserver.service"
	// bump is by how much the revision of restored data is above all that was ever seen: more than a cluster writes
	// between two snapshots (etcd.io/docs, "Disaster recovery").
	bump = 1_000_000_000
	// quorumTime is how long a quorum has to answer, on a machine of usual speed: longer than an election.
	quorumTime = 10 * time.Second
)

// Options are what the operator wants.
type Options struct {
	From                string
	Yes, GiveUp, Resume bool
}

// Restore makes a new etcd, of this master alone, of a snapshot. With resume, which the start of etcd calls, it goes
// on with a restore that a power cut ended.
func Restore(ctx context.Context, m *master.Machine, out io.Writer, o Options) error {
	place := restore.Place{Root: m.Root}
	end, err := place.Begin()
	if o.Resume && errors.Is(err, restore.ErrBusy) {
		return errors.New("etcd waits until the command that restores it is done")
	}
	if err != nil {
		return err
	}
	defer end()
	if restore.Pending(m.Root) && !o.Resume && !o.Yes {
		return errors.New("a restore is committed, and goes on at the next start of etcd, or when you say the same with --yes; nothing was changed")
	}
	if o.Resume {
		return resumeRestore(ctx, m, place, false)
	}
	c, n, err := m.Master()
	if err != nil {
		return err
	}
	if !restore.Pending(m.Root) {
		return restoreFrom(ctx, m, out, c, n, place, o)
	}
	if err := resumeRestore(ctx, m, place, true); err != nil {
		return err
	}
	fmt.Fprint(out, done(others(c, n)))
	return nil
}

// resumeRestore goes on with what was committed.
func resumeRestore(ctx context.Context, m *master.Machine, place restore.Place, units bool) error {
	if !units {
		return resume(m, place)
	}
	ended, err := stopUnits(ctx, m)
	if err != nil {
		return err
	}
	if err := resume(m, place); err != nil {
		return startAnyway(ctx, m, ended, err)
	}
	return startUnits(ctx, m, ended)
}

func resume(m *master.Machine, place restore.Place) error {
	done, ok, err := place.Resume()
	if err == nil && ok {
		m.Say("etcd was restored from " + done.Snapshot + "; what was there before is in " + place.GivenUp(done))
	}
	return err
}

// stopUnits stops etcd and what works on it. end is called when both are started again: where this process is killed
// before, somebody else starts them (package pause).
func stopUnits(ctx context.Context, m *master.Machine) (end func(), err error) {
	if end, err = pause.Units(m.Root, etcdUnit, apiUnit); err != nil {
		return nil, err
	}
	// The API server first: without its etcd it would take its time.
	if err := systemctl(ctx, m, "stop", apiUnit, etcdUnit); err != nil {
		return nil, startAnyway(ctx, m, end, err)
	}
	return end, nil
}

// startAnyway has etcd and the API server start, whatever ended what was done; nobody waits for it. What cannot be
// started is tried once more when this process has ended.
func startAnyway(ctx context.Context, m *master.Machine, end func(), why error) error {
	ctx = context.WithoutCancel(ctx)
	if err := systemctl(ctx, m, "start", "--no-block", etcdUnit); err != nil {
		return errors.Join(why, err)
	}
	if err := systemctl(ctx, m, "start", "--no-block", apiUnit); err != nil {
		m.Say(err.Error()) // etcd runs without it.
		return why
	}
	end()
	return why
}

// startUnits returns when etcd serves. The API server takes longer, and its unit says how it is.
func startUnits(ctx context.Context, m *master.Machine, ended func()) error {
	err := systemctl(ctx, m, "start", etcdUnit)
	if err == nil {
		err = systemctl(ctx, m, "start", "--no-block", apiUnit)
	}
	if err != nil {
		return startAnyway(ctx, m, ended, err)
	}
	ended()
	return nil
}

func restoreFrom(ctx context.Context, m *master.Machine, out io.Writer, c *facts.Cluster, n *facts.Node, place restore.Place, o Options) error {
	found, err := look(ctx, m, c, n)
	if err != nil {
		return err
	}
	if err := found.refuse(n.Name, o.GiveUp); err != nil {
		return err
	}
	id, err := snapshotIdentity(m)
	if err != nil {
		return err
	}
	seen := found.revision
	h, name, err := choose(ctx, m, c, n, place, id, o.From, &seen)
	if err != nil {
		return err
	}
	own, err := netip.ParseAddr(n.IPs[0])
	if err != nil {
		return fmt.Errorf("addresses of this node: %w", err)
	}
	commit := restore.Committed{
		Cluster: c.ID, Node: n.Name, Initial: c.Members[masterRole], Nonce: formation.NewNonce(), Snapshot: name, Time: time.Now().UTC().Truncate(time.Second),
	}
	fmt.Fprint(out, found.plan(n.Name, h, name, place.GivenUp(commit), time.Now()))
	if !o.Yes {
		return errors.New("nothing was changed; if that is what you want, say the same with --yes")
	}
	if err := os.MkdirAll(m.Root.At(paths.Etcd), 0o700); err != nil {
		return err
	}
	tool := etcdutl.Tool{Path: m.Root.At(etcdutl.Program)}
	err = tool.Restore(ctx, etcdutl.Restore{
		Snapshot: place.Plain(), Data: place.Made(), Member: n.Name, Peer: "https://" + netip.AddrPortFrom(own, kubernetes.PortEtcdPeer).String(),
		// A token of its own: members of what is given up would otherwise take this one for theirs.
		Token: c.ID + "-" + commit.Nonce, Bump: bump + uint64(max(seen-h.Revision, 0)),
	})
	if err != nil {
		return err
	}
	ended, err := stopUnits(ctx, m)
	if err != nil {
		return err
	}
	if err := place.Commit(commit); err != nil {
		return startAnyway(ctx, m, ended, err)
	}
	if _, _, err := place.Resume(); err != nil {
		// It is committed: each start of etcd tries again, and says why it does not get on.
		return startAnyway(ctx, m, ended, err)
	}
	m.Say("the data is in place; starting etcd")
	if err := startUnits(ctx, m, ended); err != nil {
		return err
	}
	fmt.Fprint(out, done(others(c, n)))
	return nil
}

// found is how the masters' etcds are.
type found struct {
	// quorum names a master whose etcd answers for a quorum; "" when none does.
	quorum string
	// serves is true where this master's own etcd answers for one.
	serves bool
	// answers lists the masters whose etcd runs at all, revision is the newest that any has.
	answers  []string
	revision int64
	masters  []string
}

// members asks every master's etcd.
func look(ctx context.Context, m *master.Machine, c *facts.Cluster, n *facts.Node) (found, error) {
	f := found{masters: c.Members[masterRole]}
	within := quorumTime * time.Duration(kubernetes.Of(c.Services).Slow())
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, name := range f.masters {
		endpoint := client.Own
		if name != n.Name {
			other, err := m.Part.Node(name)
			if err != nil {
				return f, err
			}
			endpoint = client.URL(other.IPs[0])
		}
		conn, err := m.Connect(c, endpoint)
		if err != nil {
			return f, err
		}
		all.Go(func() {
			defer conn.Close()
			runs, revision, quorum := ask(ctx, conn, endpoint, within)
			mu.Lock()
			defer mu.Unlock()
			if runs {
				f.answers, f.revision = append(f.answers, name), max(f.revision, revision)
			}
			if quorum {
				f.quorum, f.serves = name, f.serves || name == n.Name
			}
		})
	}
	all.Wait()
	slices.Sort(f.answers)
	return f, ctx.Err()
}

// ask tells how the etcd at an endpoint is. Both questions take their whole time where nobody answers.
func ask(ctx context.Context, conn *clientv3.Client, endpoint string, within time.Duration) (runs bool, revision int64, quorum bool) {
	each, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() {
		if s, err := conn.Status(each, endpoint); err == nil {
			runs, revision = true, s.Header.Revision
		}
	})
	both.Go(func() { quorum = source.Quorum(each, conn, within) == nil })
	both.Wait()
	return runs, revision, quorum
}

// refuse says why a restore would do harm.
func (f found) refuse(own string, giveUp bool) error {
	var elsewhere []string
	for _, name := range f.answers {
		if name != own {
			elsewhere = append(elsewhere, name)
		}
	}
	switch {
	case f.quorum == "":
		return nil
	case !giveUp:
		return fmt.Errorf("a quorum of etcd is alive (%s answers for it), and nothing is to be restored: a master that lost its data joins by itself. If what the quorum has is worth nothing, stop etcd on all other masters (spore etcd stop NODE --force etcd), and restore with --force etcd", f.quorum)
	case len(elsewhere) > 0:
		return fmt.Errorf("etcd of %s still runs; stop it there first (spore etcd stop NODE --force etcd), or there would be two clusters with one name", strings.Join(elsewhere, ", "))
	}
	return nil
}

// plan tells what a restore does.
func (f found) plan(own string, h sealing.Header, name, kept string, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "etcd is made anew, of %s alone, from\n  %s\n  taken %s by %s, %s before now: revision %d, %d keys\n", own, name,
		h.Taken.Format(time.RFC3339), h.Node, now.Sub(h.Taken).Round(time.Second), h.Revision, h.Keys)
	b.WriteString("This gives up\n")
	if f.revision > h.Revision {
		fmt.Fprintf(&b, "  what was written after that, at least %d changes\n", f.revision-h.Revision)
	} else {
		b.WriteString("  what was written after that\n")
	}
	fmt.Fprintf(&b, "  the data of %s, if there is any; it is kept in %s\n", own, kept)
	for _, other := range f.masters {
		how := "does not answer, and may have data"
		if slices.Contains(f.answers, other) {
			how = "has data, and no quorum"
		}
		if other != own {
			fmt.Fprintf(&b, "  the data of %s, which %s\n", other, how)
		}
	}
	if len(f.masters) > 1 {
		b.WriteString("No other master may ever come back with its former data.\n")
	}
	return b.String()
}

// done tells how to go on.
func done(others []string) string {
	if len(others) == 0 {
		return "etcd is restored.\n"
	}
	return fmt.Sprintf(`etcd is restored and has one member. %s join it by themselves when they have no data of the former one. For each that has some: spore etcd forget NODE
`, strings.Join(others, ", "))
}

// choose lays the database of a snapshot ready: that of a file, or the newest that opens of all that masters have. seen
// becomes the newest revision of all of them.
func choose(ctx context.Context, m *master.Machine, c *facts.Cluster, n *facts.Node, place restore.Place, id *age.X25519Identity, from string, seen *int64) (sealing.Header, string, error) {
	list, where := known(ctx, m, c, n)
	for _, e := range list {
		*seen = max(*seen, e.Name.Revision)
	}
	if from != "" {
		h, err := unsealed(place, func(to io.Writer) (sealing.Header, error) { return unseal(from, id, c.ID, to) })
		return h, filepath.Base(from), err
	}
	for _, e := range list {
		h, err := fetched(ctx, m, c, place, id, e, where[e.Name])
		if err == nil {
			return h, e.Name.String(), nil
		}
		m.Say(err.Error())
	}
	return sealing.Header{}, "", errors.New("no master that answers has a snapshot that opens; name a file with --from")
}

// known lists the snapshots of all masters that answer, newest first, and where each is: "" for here.
func known(ctx context.Context, m *master.Machine, c *facts.Cluster, n *facts.Node) ([]snapshot.Entry, map[snapshot.Name]string) {
	where := map[snapshot.Name]string{}
	list, err := kept(m).List()
	if err != nil {
		m.Say(err.Error())
	}
	for _, e := range list {
		where[e.Name] = ""
	}
	peers := mastersBeside(m, c)
	for _, other := range others(c, n) {
		theirs, err := snapshot.ListOf(ctx, peers, other)
		if err != nil {
			m.Say(err.Error())
			continue
		}
		for _, e := range theirs {
			if _, there := where[e.Name]; !there {
				where[e.Name], list = other, append(list, e)
			}
		}
	}
	snapshot.Sort(list, time.Now())
	return list, where
}

// fetched lays the database of one of them ready.
func fetched(ctx context.Context, m *master.Machine, c *facts.Cluster, place restore.Place, id *age.X25519Identity, e snapshot.Entry, node string) (sealing.Header, error) {
	dir := kept(m)
	if node != "" {
		unlock, err := dir.Lock(ctx)
		if err != nil {
			return sealing.Header{}, err
		}
		defer unlock()
		if err := dir.Get(ctx, mastersBeside(m, c), node, e, time.Now()); err != nil {
			return sealing.Header{}, err
		}
	}
	return unsealed(place, func(to io.Writer) (sealing.Header, error) { return unsealKept(m, e.Name, id, c.ID, to) })
}

// unsealed decrypts a snapshot to where a restore takes it from.
func unsealed(place restore.Place, unseal func(to io.Writer) (sealing.Header, error)) (h sealing.Header, err error) {
	out, err := os.OpenFile(place.Plain(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return h, fmt.Errorf("lay the database ready: %w", err)
	}
	defer out.Close()
	if h, err = unseal(out); err != nil {
		return h, err
	}
	if err := out.Close(); err != nil {
		return h, fmt.Errorf("lay the database ready: %w", err)
	}
	return h, nil
}

// systemctl has systemd do something, and says what it waits for.
func systemctl(ctx context.Context, m *master.Machine, args ...string) error {
	m.Say("systemctl " + strings.Join(args, " "))
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
