// Package verb is what the commands share that have nodes do something (nodeapi.Verbs): the order goes to all nodes at
// once, what they say while they work is shown as it comes, and what came of it is returned node by node.
package verb

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/cluster/facts"
	"spore/fleet/verbs"
	"spore/wire/nodeapi"
)

// ErrSome is the error of a command when a node did not do what it was asked; which, and why, was printed.
var ErrSome = errors.New("not every node has done it")

// Reply is what came of one order.
type Reply = verbs.Reply

// Row is a row of the table, which is known to be there.
func Row(name string) nodeapi.Verb { return verbs.Row(name) }

// Same is an order for every node.
func Same(o nodeapi.Order) func(facts.Node) nodeapi.Order { return verbs.Same(o) }

// Open finds the cluster, with a certificate that may call the verb.
func Open(cmd *cobra.Command, f reach.Flags, dir string, v nodeapi.Verb) (*reach.Cluster, error) {
	return f.Open(cmd, dir, nodeapi.Least(v.Who))
}

// Ask sends each node its order, all at once, and returns when all have ended. see, where it is not nil, is called with
// each part of a result as it comes, for one node at a time.
func Ask(cmd *cobra.Command, c *reach.Cluster, v nodeapi.Verb, order func(facts.Node) nodeapi.Order, see func(node string, part json.RawMessage) error) []reach.Answer[Reply] {
	return verbs.Send(cmd.Context(), cmd.ErrOrStderr(), c, v, verbs.MaxResults, order, see)
}

// Words is a text of a node as it is printed behind the node's name: harmless, with further lines indented.
func Words(text string) string {
	return strings.ReplaceAll(nodeapi.HarmlessLines(strings.TrimRight(text, "\n")), "\n", "\n  ")
}

// Answering reduces the cluster to the first node with a role that answers; with --node that one alone. Several may be
// asked for the same thing, and one of them is enough.
func Answering(cmd *cobra.Command, c *reach.Cluster, role string) error {
	if err := verbs.Having(c, role); err != nil {
		return exit.Usage(err)
	}
	var problems []error
	for _, n := range c.Nodes {
		ctx, cancel := context.WithTimeout(cmd.Context(), c.Timeout)
		err := verbs.Answers(ctx, c, n)
		cancel()
		if err == nil {
			c.Nodes = []facts.Node{n}
			return nil
		}
		problems = append(problems, fmt.Errorf("%s: %w", n.Name, err))
	}
	return silent(role, problems)
}

// AllAnswering reduces the cluster to the nodes with a role that answer, and says which do not. When none does, that is
// an error.
func AllAnswering(cmd *cobra.Command, c *reach.Cluster, role string) error {
	if err := verbs.Having(c, role); err != nil {
		return exit.Usage(err)
	}
	var some []facts.Node
	var problems []error
	for _, a := range reach.Each(cmd.Context(), c, func(ctx context.Context, n facts.Node) (struct{}, error) {
		return struct{}{}, verbs.Answers(ctx, c, n)
	}) {
		if a.Err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", a.Node.Name, a.Err))
			continue
		}
		some = append(some, a.Node)
	}
	if len(some) == 0 {
		return silent(role, problems)
	}
	for _, err := range problems {
		fmt.Fprintln(cmd.ErrOrStderr(), Words(err.Error()))
	}
	c.Nodes = some
	return nil
}

func silent(role string, problems []error) error {
	return fmt.Errorf("no node with the role %s answers: %w", role, errors.Join(problems...))
}

// InTurn has the first node with a role that answers do something, and where it fails the next one: of two nodes, one
// may run while its program does not. It returns the answer of the last one that was asked.
func InTurn(cmd *cobra.Command, c *reach.Cluster, role string, v nodeapi.Verb, o nodeapi.Order) ([]reach.Answer[Reply], error) {
	for left := *c; ; {
		one := left
		if err := Answering(cmd, &one, role); err != nil {
			return nil, err
		}
		answers := Ask(cmd, &one, v, Same(o), nil)
		name := one.Nodes[0].Name
		left.Nodes = left.Nodes[1+slices.IndexFunc(left.Nodes, func(n facts.Node) bool { return n.Name == name }):]
		has := func(n facts.Node) bool { return slices.Contains(n.Roles, role) }
		if answers[0].Err == nil || cmd.Context().Err() != nil || !slices.ContainsFunc(left.Nodes, has) {
			return answers, nil
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s; the next node with the role %s is asked\n", name, Words(answers[0].Err.Error()), role)
	}
}

// outcome is what --json prints of one node.
type outcome struct {
	Node    string            `json:"node"`
	Results []json.RawMessage `json:"results,omitempty"`
	Done    string            `json:"done,omitempty"`
	Error   string            `json:"error,omitempty"`
}

// Tell prints what became of the orders, and returns ErrSome when one failed. With asJSON it is an array with an object
// for each node, with all results; otherwise show prints a node's results, and a line says what was done. Of a node
// that failed show prints what there is.
func Tell(cmd *cobra.Command, answers []reach.Answer[Reply], asJSON bool, show func(w io.Writer, node string, results []json.RawMessage) error) error {
	var failed error
	all := make([]outcome, 0, len(answers))
	for _, a := range answers {
		o := outcome{Node: a.Node.Name, Results: a.Value.Results, Done: a.Value.Done}
		if a.Err != nil {
			o.Error, failed = a.Err.Error(), ErrSome
		}
		all = append(all, o)
	}
	if asJSON {
		return errors.Join(nodeapi.WriteJSON(cmd.OutOrStdout(), all, "  "), failed)
	}
	for _, o := range all {
		if show != nil && (o.Error == "" || len(o.Results) > 0) {
			// What a node gave that failed may be half of something; why it failed is told in any case.
			if err := show(cmd.OutOrStdout(), o.Node, o.Results); err != nil && o.Error == "" {
				return err
			}
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", o.Node, Words(cmp.Or(o.Error, o.Done)))
	}
	return failed
}

// Confirm returns the word that an order has to repeat, from the flag --confirm or from a person at the terminal, who
// is told what is lost.
func Confirm(cmd *cobra.Command, given, word, lost string) (string, error) {
	shown := nodeapi.Harmless(word) // A node may have said it, or a disk.
	switch {
	case given == word:
		return given, nil
	case given != "":
		return "", exit.Usage(fmt.Errorf("--confirm is %q, and this is about %s", given, shown))
	case !ask.Somebody():
		return "", exit.Usage(fmt.Errorf("%s; confirm it with --confirm %s", lost, shown))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s. Type %s to go on: ", lost, shown)
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(line) != word {
		return "", errors.New("nothing was done: the word was another")
	}
	return word, nil
}
