package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/reach"
	"spore/builder/compare"
	"spore/builder/push"
	"spore/builder/rootfs"
	"spore/cluster/facts"
	"spore/services"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

// previewBound is how long a node may look at an update, which it holds against all that is on its disk.
const previewBound = 5 * time.Minute

// outlook is what a dry run prints as JSON.
type outlook struct {
	Serial      uint64 `json:"serial,omitempty"`
	RootHash    string `json:"rootHash,omitempty"`
	ClusterHash string `json:"clusterHash,omitempty"`
	Nodes       []view `json:"nodes"`
	// Was are the differences between the image of --was and the new one.
	Was *compare.Diff `json:"was,omitempty"`
}

// view is what a node says that would become of it.
type view struct {
	Node   string         `json:"node"`
	Status nodeapi.Status `json:"-"`
	Answer *update.Answer `json:"answer,omitempty"`
	Error  string         `json:"error,omitempty"`
}

// asker asks a node what it would do.
type asker func(ctx context.Context, node string) (update.Answer, error)

// refused is what a node says that would not do it.
type refused struct{ why string }

func (r refused) Error() string { return r.why }

// preview asks each node what an update would change.
func (n *nodes) preview(cmd *cobra.Command, u *push.Update) error {
	out := outlook{Serial: u.Head.Serial, RootHash: u.Head.RootHash, ClusterHash: u.Head.ClusterHash}
	if n.flags.was != "" {
		was, err := rootfs.Open(n.flags.was)
		if err != nil {
			return fmt.Errorf("--was: %w", err)
		}
		out.Was = compare.Manifests(was.Manifest, u.Manifest)
		was.Close()
		if !n.flags.json {
			showDifferences(cmd.OutOrStdout(), n.flags.was, out.Was)
		}
	}
	send := n.sender(u, url.Values{"dryRun": {"true"}}, nil)
	roles := n.roles()
	var known keptObjects
	ask := func(ctx context.Context, node string) (update.Answer, error) {
		a, err := send.Preview(ctx, node)
		known.add(a)
		return a, err
	}
	return n.look(cmd, out, ask, func(v view) []string {
		lines := push.Outlook(services.Of(&n.Facts), u.Head, roles[v.Node], v.Status, *v.Answer)
		if slices.Contains(roles[v.Node], "control-plane") && v.Answer.Change != nil && n.flags.from == "" {
			// What was written before does not say which objects it has.
			lines = append(lines, push.ObjectChanges(v.Answer.Change.Manifests, u.Objects, known.all, known.more)...)
		}
		return lines
	})
}

// keptObjects are what all masters know of objects: the one that acts knows which were there before the folder had
// them.
type keptObjects struct {
	mu  sync.Mutex
	all map[string]update.Kept
	// more says that there are others that stay.
	more bool
}

func (k *keptObjects) add(a update.Answer) {
	if a.Change == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]update.Kept{}
	}
	k.more = k.more || a.Change.MoreKept
	for name, kept := range a.Change.Kept {
		known := k.all[name]
		k.all[name] = update.Kept{Why: max(known.Why, kept.Why), Defines: max(known.Defines, kept.Defines)}
	}
}

// previewBack asks each node what it would return to.
func (n *nodes) previewBack(cmd *cobra.Command) error {
	ask := func(ctx context.Context, node string) (update.Answer, error) {
		return n.post(ctx, node, nodeapi.Request{Path: nodeapi.BackPath, Query: url.Values{"dryRun": {"true"}}})
	}
	roles := n.roles()
	return n.look(cmd, outlook{}, ask, func(v view) []string {
		return push.OutlookBack(services.Of(&n.Facts), roles[v.Node], v.Status, *v.Answer)
	})
}

// look asks all nodes at the same time, and prints what they say.
func (n *nodes) look(cmd *cobra.Command, out outlook, ask asker, lines func(view) []string) error {
	patient := *n.Cluster
	patient.Timeout = max(n.Timeout, previewBound)
	answers := reach.Each(cmd.Context(), &patient, func(ctx context.Context, node facts.Node) (view, error) {
		s, err := n.ask(ctx, node.Name)
		if err != nil {
			return view{}, err
		}
		a, err := ask(ctx, node.Name)
		if err == nil && a.Error != "" {
			err = refused{a.Error}
		}
		if a.Lacks != nil {
			a.Lacks.Objects = nil // thousands of hashes say nothing to a person
		}
		return view{Status: s, Answer: &a}, err
	})
	failed := 0
	for _, a := range answers {
		v := a.Value
		v.Node = a.Node.Name
		if a.Err != nil {
			failed++
			v.Answer, v.Error = nil, a.Err.Error()
		}
		out.Nodes = append(out.Nodes, v)
		if n.flags.json {
			continue
		}
		if a.Err != nil {
			verb := "does not say what it would do"
			if errors.As(a.Err, new(refused)) {
				verb = "would not do it"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s\n", v.Node, verb, nodeapi.Harmless(v.Error))
			continue
		}
		for _, text := range lines(v) {
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", v.Node, nodeapi.Harmless(text))
		}
	}
	var err error
	if n.flags.json {
		err = nodeapi.WriteJSON(cmd.OutOrStdout(), out, "")
	}
	if failed > 0 {
		return errors.Join(err, fmt.Errorf("%d of %d nodes would not do it, or do not answer", failed, len(answers)))
	}
	return err
}

// showDifferences prints what of packages and programs differs from an earlier image.
func showDifferences(w io.Writer, name string, d *compare.Diff) {
	var lines []string
	add := func(kind string, v compare.Value) {
		lines = append(lines, fmt.Sprintf("  %s %s: %s → %s", kind, v.Name, cmp.Or(v.Old, "none"), cmp.Or(v.New, "none")))
	}
	for _, v := range d.Image {
		if v.Name == "kernel" {
			add("the", v)
		}
	}
	for _, v := range d.Packages {
		add("package", v)
	}
	for _, p := range d.Payloads {
		add("program", p.Value)
	}
	if lines == nil {
		lines = []string{"  the same packages and programs"}
	}
	fmt.Fprintf(w, "%s differs from the new image:\n%s\n", name, strings.Join(lines, "\n"))
}
