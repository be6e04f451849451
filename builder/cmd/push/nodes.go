package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/reach"
	"spore/builder/push"
	"spore/cluster/facts"
	"spore/services"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

const (
	// sendBound is the longest that a node may take with a message: the last one has it write a root and read it back.
	sendBound = time.Hour
	// restartBound is what two restarts of a machine may take besides the trial: server firmware takes minutes.
	restartBound = 20 * time.Minute
	// askEvery is how often a node that restarts is asked.
	askEvery = 5 * time.Second
	// maxAnswer bounds what a node answers, in bytes.
	maxAnswer = 1 << 20
)

// nodes are those that the command is about, among all of their cluster.
type nodes struct {
	*reach.Cluster
	all   *reach.Cluster
	flags flags
}

func openNodes(cmd *cobra.Command, dir string, f flags) (*nodes, error) {
	some, err := f.reach.Open(cmd, dir, nodeapi.Admin)
	if err != nil {
		return nil, err
	}
	everybody := f.reach
	everybody.Nodes, everybody.Everybody = nil, true
	all, err := everybody.Open(cmd, dir, nodeapi.Admin)
	if err != nil {
		return nil, err
	}
	return &nodes{some, all, f}, f.checkWithout(all, dir)
}

// push brings an update to them.
func (n *nodes) push(cmd *cobra.Command, world outside, u *push.Update) error {
	r := n.rollout(cmd)
	r.RootHash, r.ClusterHash, r.Versions = u.Head.RootHash, u.Head.ClusterHash, u.Head.Root.Versions
	r.Reboot = n.flags.reboot
	r.Send = func(ctx context.Context, node string, w push.Wish) (update.Answer, error) {
		query := url.Values{}
		if n.flags.reboot {
			query.Set("reboot", "true")
		}
		if n.flags.giveUpWayBack || w.GiveUpWayBack {
			query.Set("giveUpWayBack", "true")
		}
		return n.sender(u, query, r.Say).Send(ctx, node)
	}
	if world.somebody() && !n.flags.json {
		r.GiveUp = func(node, why string) bool {
			yes, err := ask.Yes(cmd.ErrOrStderr(), world.in, fmt.Sprintf("%s: %s. Update it nevertheless?", node, why))
			return err == nil && yes
		}
	}
	return n.run(cmd, r)
}

// back has them return to the system before.
func (n *nodes) back(cmd *cobra.Command) error {
	if n.flags.dryRun {
		return n.previewBack(cmd)
	}
	r := n.rollout(cmd)
	r.Reboot = true
	r.Send = func(ctx context.Context, node string, _ push.Wish) (update.Answer, error) {
		return n.post(ctx, node, nodeapi.Request{Path: nodeapi.BackPath})
	}
	return n.run(cmd, r)
}

func (n *nodes) run(cmd *cobra.Command, r push.Rollout) error {
	answers, err := r.Run(cmd.Context())
	if n.flags.json {
		return errors.Join(nodeapi.WriteJSON(cmd.OutOrStdout(), answers, ""), err)
	}
	return err
}

// rollout is what is the same of a push and the way back.
func (n *nodes) rollout(cmd *cobra.Command) push.Rollout {
	return push.Rollout{
		Services: services.Of(&n.Facts),
		Nodes:    targets(n.Nodes), All: targets(n.all.Nodes), Without: n.flags.without, Every: askEvery,
		Bound: services.TrialBound(&n.Facts) + restartBound, Settle: services.TrialSettle(&n.Facts), Ask: n.ask,
		Say: func(node, text string) {
			if !n.flags.json {
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", node, nodeapi.Harmless(strings.TrimSpace(text)))
			}
		},
	}
}

func (n *nodes) sender(u *push.Update, query url.Values, say func(node, text string)) push.Sender {
	return push.Sender{
		Update: u, Waits: push.Waits(), Say: say,
		Post: func(ctx context.Context, node string, message io.Reader) (update.Answer, error) {
			return n.post(ctx, node, nodeapi.Request{Path: nodeapi.UpdatePath, Query: query, Body: message})
		},
	}
}

func (n *nodes) post(ctx context.Context, node string, q nodeapi.Request) (a update.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendBound)
	defer cancel()
	q.Method = "POST"
	data, err := n.Client.Read(ctx, node, q, maxAnswer)
	var r nodeapi.Refusal
	if errors.As(err, &r) && r.Status == http.StatusNotFound {
		return a, fmt.Errorf("its image is from before updates in pieces: write it anew with `spore flash` (%w)", err)
	}
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("its answer is malformed: %w", err)
	}
	return a, nil
}

func (n *nodes) ask(ctx context.Context, node string) (s nodeapi.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	data, err := n.Client.Read(ctx, node, nodeapi.Request{Path: nodeapi.StatusPath}, nodeapi.MaxStatus)
	if err != nil {
		return s, err
	}
	return nodeapi.ParseStatus(data, n.Facts.Name, node)
}

// roles are those of each node.
func (n *nodes) roles() map[string][]string {
	out := map[string][]string{}
	for _, node := range n.Nodes {
		out[node.Name] = node.Roles
	}
	return out
}

func targets(nodes []facts.Node) []push.Target {
	var out []push.Target
	for _, n := range nodes {
		out = append(out, push.Target{Name: n.Name, Roles: n.Roles})
	}
	return out
}
