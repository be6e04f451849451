package boot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"spore/builder/cmd/operator"
	"spore/builder/cmd/reach"
	"spore/builder/rehearsal/ready"
	"spore/builder/vm"
	"spore/cluster/facts"
	tree "spore/pki"
	"spore/services"
	"spore/wire/nodeapi"
)

const (
	// untilReady is the one state that --until waits for.
	untilReady = "ready"
	// untilLimit is --timeout where it is left out.
	untilLimit = 20 * time.Minute
	// lookAgain is how often what cannot be waited for is asked: a node's health, and Kubernetes.
	lookAgain = 2 * time.Second
	// askLimit bounds one answer of a node.
	askLimit = 10 * time.Second
	// spare is how much longer than --timeout, and than tests may take, the certificates hold that nodes are asked with.
	spare = time.Hour
)

// limit is how long --until waits.
func (f flags) limit() time.Duration {
	if f.timed {
		return f.timeout
	}
	return untilLimit
}

// checkUntil checks the arguments of --until.
func (f flags) checkUntil() error {
	switch {
	case f.test && (f.kill || len(f.nodes) == 0 && !f.all):
		return errors.New("--test goes with the nodes to start: --node NAME or --all")
	case f.timed && f.until == "":
		return errors.New("--timeout goes with --until ready")
	case f.until != "" && f.until != untilReady:
		return fmt.Errorf("--until is %q; it can be %s", f.until, untilReady)
	case f.until != "" && (f.kill || len(f.nodes) == 0 && !f.all):
		return errors.New("--until goes with the nodes to start: --node NAME or --all")
	case f.timed && f.timeout <= 0:
		return fmt.Errorf("--timeout is %s; write how long to wait, such as 20m", f.timeout)
	}
	return nil
}

// panicked is the kernel's last word; the machine starts again by itself a few seconds later.
var panicked = regexp.MustCompile(`Kernel panic - not syncing: .*`)

// kernelBegins is the first line of each boot: what was said before it is not true any more.
const kernelBegins = "Linux version "

// asker asks machines what their consoles do not say. Its parts are nil where the operator's folder has no key for
// them.
type asker struct {
	cluster    *facts.Cluster
	nodes      *nodeapi.Identity
	kubernetes *ready.Kubernetes
}

// newAsker makes certificates for the moment: to ask nodes, with the rights of a row of keys, and Kubernetes where the
// cluster has it.
func newAsker(keys *operator.Keys, c *facts.Cluster, limit time.Duration, rights string) (*asker, error) {
	a := &asker{cluster: c}
	o, life := tree.Options{Now: time.Now(), Random: rand.Reader}, min(limit+spare, tree.LeafLife)
	made, err := keys.Tree.Access(c, rights, reach.Person(), life, o)
	if err != nil {
		return nil, fmt.Errorf("make a certificate to ask the nodes with: %w", err)
	}
	a.nodes = &nodeapi.Identity{Certificate: []byte(made.Certificate), Key: []byte(made.Key), Authorities: made.Authority}
	if len(c.Members["control-plane"]) == 0 {
		return a, nil
	}
	if made, err = keys.Tree.Admin(c, reach.Person(), min(life, tree.KubernetesLife), o); err != nil {
		return nil, fmt.Errorf("make a certificate to ask Kubernetes with: %w", err)
	}
	a.kubernetes, err = ready.NewKubernetes([]byte(made.Certificate), []byte(made.Key), made.Authority)
	return a, err
}

// withoutKeys says what cannot be asked where the operator's folder is not at hand.
func (s *session) withoutKeys() error {
	if s.flags.test {
		return errors.New("nodes run tests for whoever has the cluster's keys; name their folder with --pki")
	}
	for _, m := range s.machines {
		if services.RunsPods(s.cluster, m.plan.Node) {
			return fmt.Errorf("whether Kubernetes takes %s for Ready is asked with the cluster's keys; name their folder with --pki", m.plan.Node.Name)
		}
	}
	s.reporter.warn("", "without the cluster's keys no node is asked for its health: status lines alone say what is ready")
	return nil
}

// client asks a node at a port of this host.
func (a *asker) client(at string) nodeapi.Client {
	return nodeapi.Client{
		Identity:  func() (nodeapi.Identity, error) { return *a.nodes, nil },
		Addresses: func(string) ([]string, error) { return []string{at}, nil },
	}
}

// health asks a node over the port of this host that leads to its API.
func (a *asker) health(ctx context.Context, node, at string) ([]ready.Lack, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	client := a.client(at)
	data, err := client.Read(ctx, node, nodeapi.Request{Path: nodeapi.HealthPath}, nodeapi.MaxHealth)
	if err != nil {
		return nil, err
	}
	h, err := nodeapi.ParseHealth(data, a.cluster.ID, node)
	return ready.ByHealth(h), err
}

// watched is a machine while --until waits for it.
type watched struct {
	*machine
	// mark is how much of the console was read, and status the last status line of the present boot.
	mark   int
	status *vm.Status
	lacks  []ready.Lack
}

// look reads what the console has said since the last time.
func (w *watched) look() {
	lines := w.Console.Lines(w.mark)
	w.mark += len(lines)
	for _, l := range lines {
		if s, ok := vm.ParseStatus(l.Text); ok {
			w.status = &s
		} else if strings.Contains(l.Text, kernelBegins) {
			w.status = nil
		}
	}
}

// awaitReady waits until all machines are ready at the same time, and says of each when it is and what it lacks. It
// fails with the context, which ends with the time limit, with the user's patience, or with a machine.
func (s *session) awaitReady(ctx context.Context) error {
	limit := s.flags.limit()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the time limit of %s is over", limit))
	defer cancel()
	var all []*watched
	for _, m := range s.machines {
		all = append(all, &watched{machine: m, lacks: ready.ByStatus(s.cluster, m.plan.Node, nil)})
	}
	for {
		if s.round(ctx, all) {
			return nil
		}
		select {
		case <-ctx.Done():
			return s.notReady(all, context.Cause(ctx))
		case <-time.After(lookAgain):
		}
	}
}

// round looks at all machines once, and tells whether all are ready.
func (s *session) round(ctx context.Context, all []*watched) bool {
	lacks := make([][]ready.Lack, len(all))
	var group sync.WaitGroup
	for i, w := range all {
		group.Go(func() {
			w.look()
			lacks[i] = s.lacks(ctx, w)
		})
	}
	group.Wait()
	// Questions that were cut short say nothing of the nodes.
	if ctx.Err() != nil {
		return false
	}
	done := true
	for i, w := range all {
		// What a status line lacks is told with that line.
		if whats(lacks[i]) != whats(w.lacks) && len(ready.ByStatus(s.cluster, w.plan.Node, w.status)) == 0 {
			s.reporter.lacks(w.plan.Node.Name, time.Since(s.started), lacks[i])
		}
		w.lacks = lacks[i]
		done = done && len(w.lacks) == 0
	}
	return done
}

// whats tells one list from another; reasons hold times and counts, which change all the while.
func whats(list []ready.Lack) string {
	var out []string
	for _, l := range list {
		out = append(out, l.What)
	}
	return strings.Join(out, "\n")
}

// lacks is what a machine lacks. It is asked for its health only when its status line leaves nothing to say.
func (s *session) lacks(ctx context.Context, w *watched) []ready.Lack {
	node := w.plan.Node
	lacks := ready.ByStatus(s.cluster, node, w.status)
	if len(lacks) > 0 || s.asker == nil {
		return lacks
	}
	own := s.ends(node.Name, nodeapi.Port)
	if len(own) == 0 {
		return []ready.Lack{{What: "health", Reason: "no port of this host leads to the node's API"}}
	}
	lacks, err := s.asker.health(ctx, node.Name, own[0])
	if err != nil {
		return []ready.Lack{{What: "health", Reason: err.Error()}}
	}
	if len(lacks) > 0 || !services.RunsPods(s.cluster, node) || s.asker.kubernetes == nil {
		return lacks
	}
	var servers []string
	for _, master := range s.asker.cluster.Members["control-plane"] {
		servers = append(servers, s.ends(master, apiServerPort)...)
	}
	return s.asker.kubernetes.Lacks(ctx, servers, node.Name, s.started)
}

// apiServerPort is that of the Kubernetes API on every control plane.
const apiServerPort = 6443

// ends are the ends on this host of what leads to a port of a node, also of one that another command has started.
func (s *session) ends(node string, port int) []string {
	var out []string
	for _, f := range s.folder.Forwards(node) {
		if strings.HasSuffix(f.Guest, ":"+strconv.Itoa(port)) && f.Protocol == "tcp" {
			out = append(out, net.JoinHostPort("127.0.0.1", strconv.Itoa(f.Host)))
		}
	}
	return out
}

// notReady says of each machine that is not ready what it lacks, and why nobody waits any longer.
func (s *session) notReady(all []*watched, cause error) error {
	var names []string
	for _, w := range all {
		if len(w.lacks) == 0 {
			continue
		}
		if lines := w.Console.Lines(0); w.status == nil && len(lines) > 0 {
			w.lacks[0].Reason += fmt.Sprintf("; its console ends with %q", lines[len(lines)-1].Text)
		}
		names = append(names, w.plan.Node.Name)
		s.reporter.notReady(w.plan.Node.Name, w.lacks)
	}
	if len(names) == 0 { // the last one was lost in the round that was not finished
		return fmt.Errorf("not all nodes were ready at the same time: %w", cause)
	}
	return fmt.Errorf("not ready: %s: %w", strings.Join(names, ", "), cause)
}

// watchPanic gives up as soon as a kernel panics: the machine may come back, and is not what was to be shown.
func watchPanic(ctx context.Context, m *machine, giveUp context.CancelCauseFunc) {
	line, _, err := m.Console.AwaitMatch(ctx, 0, panicked)
	if err == nil {
		giveUp(fmt.Errorf("%s: %s", m.plan.Node.Name, panicked.FindString(line.Text)))
	}
}
