package pull

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/pull/looked"
	"spore/agent/share"
	"spore/agent/slot"
	"spore/cluster/facts"
	"spore/storage/atomicfile"
	"spore/storage/pieces"
	"spore/wire/nodeapi"
	"spore/wire/signedline"
	"spore/wire/update"
)

// keepFor is how long pieces are kept for other nodes after the update runs.
const keepFor = 24 * time.Hour

// Look looks for an update where cluster.yaml says (updates.from), and has it taken for the next start. What the
// cluster has of it already comes from its nodes. An update that is missing or refused is said
// where the status finds it; errors are for the rest.
func Look(ctx context.Context, m *node.Machine) error {
	c, n, err := m.Self()
	if err != nil {
		return err
	}
	if c.Updates == nil {
		m.Say("cluster.yaml does not say where from (updates.from): the node takes no updates by itself")
		return nil
	}
	spool := m.Root.At(paths.Push)
	if _, err := os.Stat(spool); err != nil {
		return fmt.Errorf("the node takes updates when its API runs (spore-api.service): %w", err)
	}
	v := &visits{client: nodeapi.Client{Identity: m.OwnIdentity, Addresses: m.AddressesOf}}
	defer v.end()
	l := &look{
		cluster: c, node: n.Name, shelf: &share.Shelf{Dir: m.Root.At(paths.FetchedPieces), Limit: share.ShelfLimit},
		send: slot.Spool(spool).Send, ask: v.ask, bounds: usual(), say: m.Say, now: m.Now, of: Of,
	}
	out := l.run(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.Say(out.Text())
	return atomicfile.WriteJSON(m.Root.At(paths.Looked), out)
}

// look is one look for an update.
type look struct {
	cluster *facts.Cluster
	node    string
	shelf   *share.Shelf
	send    send
	ask     func(ctx context.Context, node string, sum pieces.Sum, of string) ([]byte, error)
	bounds  bounds
	say     func(string)
	now     func() time.Time
	// of makes the source of an address.
	of func(from string) (Source, error)
}

func (l *look) run(ctx context.Context) (out looked.Last) {
	defer func() { out.At = l.now().UTC().Truncate(time.Second) }()
	from, sources, err := l.sources(ctx)
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	out.From = from.address
	msg, err := slot.OpenMessage(bytes.NewReader(from.head), l.cluster.SigningKeys)
	if err != nil {
		out.Problem = fmt.Sprintf("the head of the update: %v", err)
		return out
	}
	out.Serial = msg.Head.Serial
	a, err := l.take(ctx, from.head, msg.Head, sources, &out)
	switch {
	case err != nil:
		out.Problem = err.Error()
	case a.Error != "":
		out.Problem = a.Error
	default:
		out.Result = a.Text()
	}
	return out
}

// headAt is a head, and where it was.
type headAt struct {
	address string
	head    []byte
}

// sources are the addresses from the first one on that has a head.
func (l *look) sources(ctx context.Context) (headAt, mirrors, error) {
	var problem error
	from := l.cluster.Updates.From
	for i, address := range from {
		source, err := l.open(address)
		if err == nil {
			var head []byte
			if head, err = source.Read(ctx, Head, update.MaxHead+signedline.Max); err == nil {
				out := mirrors{&direct{source}}
				for _, more := range slices.Concat(from[i+1:], from[:i]) {
					if s, err := l.open(more); err == nil {
						out = append(out, &direct{s})
					}
				}
				return headAt{address, head}, out, nil
			}
		}
		problem = errors.Join(problem, fmt.Errorf("%s: %w", address, err))
	}
	return headAt{}, nil, fmt.Errorf("read the head of the update: %w", problem)
}

// otherPatience is how long a server may fail before the next one is asked.
const otherPatience = time.Minute

// open is the source of an address.
func (l *look) open(address string) (Source, error) {
	source, err := l.of(address)
	if s, ok := source.(*server); ok && len(l.cluster.Updates.From) > 1 {
		s.patience = min(s.patience, otherPatience)
	}
	return source, err
}

// take has the node take an update.
func (l *look) take(
	ctx context.Context, head []byte, h update.Head, from objects, out *looked.Last,
) (a update.Answer, err error) {
	of := pieces.SumOf(head).String()
	wish := slot.Wish{By: "the node itself, from " + out.From, Pull: true, Later: true}
	// Before the shelf is turned over to it: what the node refuses, or has, is none of its nodes' affairs.
	sent, err := l.send(ctx, bytes.NewReader(head), wish)
	if err != nil {
		return a, err
	}
	if a = *sent; a.Error != "" || a.Lacks == nil {
		return a, l.tidy(of, a)
	}
	if err := l.shelf.Begin(of); err != nil {
		return a, err
	}
	s := newSite(&site{
		self: l.node, of: of, nodes: share.NewNodes(nodesOf(l.cluster)), shelf: l.shelf, outside: from,
		ask: l.ask, bounds: l.bounds, say: l.say,
	})
	a, err = deliver(ctx, head, h, s, wish, l.send, l.say)
	out.Outside, out.Nodes = s.fromOutside.Load(), s.fromNodes.Load()
	// Also where it failed: who waits for this node shall not wait longer.
	return a, errors.Join(err, l.shelf.End())
}

// tidy says to the other nodes that this one fetches nothing of an update, and removes what was kept of one that has
// run for long.
func (l *look) tidy(of string, a update.Answer) error {
	since, is := l.shelf.Of()
	switch {
	case is != of || is == "":
		if err := l.shelf.Begin(of); err != nil {
			return err
		}
	case a.Unchanged && l.now().Sub(since) > keepFor:
		if err := errors.Join(l.shelf.Clear(), l.shelf.Begin(of)); err != nil {
			return err
		}
	}
	return l.shelf.End()
}

// mirrors are sources of the same objects: one is asked after the other.
type mirrors []*direct

// Expect implements objects.
func (mirrors) Expect(context.Context, []pieces.Sum) {}

// Get implements objects.
func (m mirrors) Get(ctx context.Context, sum pieces.Sum) ([]byte, error) {
	err := error(fs.ErrNotExist)
	for _, d := range m {
		content, failed := d.Get(ctx, sum)
		if failed == nil {
			return content, nil
		}
		err = failed
	}
	return nil, err
}

// nodesOf are all nodes of a cluster that have a role.
func nodesOf(c *facts.Cluster) []string {
	var out []string
	for _, names := range c.Members {
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
