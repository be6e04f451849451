// Package adopt is the command `spore adopt`: a node takes over state of another node, which it had refused.
package adopt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/verb"
	"spore/wire/nodeapi"
)

// candidate is a partition, as a node answers (agent/state).
type candidate struct {
	Disk      string `json:"disk"`
	Serial    string `json:"serial"`
	Partition string `json:"partition"`
	Size      int64  `json:"size"`
	Cluster   string `json:"cluster"`
	Node      string `json:"node"`
	Problem   string `json:"problem"`
}

// String is a line for people.
func (c candidate) String() string {
	text := fmt.Sprintf("%s on %s (serial %s, %d MiB)", c.Partition, c.Disk, c.Serial, c.Size>>20)
	if c.Node != "" {
		text += fmt.Sprintf(", of node %s of cluster %s", c.Node, c.Cluster)
	}
	if c.Problem != "" {
		text += ": " + c.Problem
	}
	return nodeapi.Harmless(text)
}

// Command returns the command.
func Command() *cobra.Command {
	return verb.One{
		Use: "adopt [DIR] NODE", Verb: "adopt",
		Short: "Have a node take over state of another node",
		Long: `Adopt makes a state partition of another node or cluster, which a node of the cluster in DIR (configs when left out)
refused, that node's, with all that is on it; the next start of the machine uses it. With --dry-run it lists the
partitions and whose they are. Encrypted state cannot be adopted: its keys belong to another node.

The node has to have its bundle, from its medium or its firmware: without one it answers nobody. Confirm with the
PARTUUID.`,
		Example: "  spore adopt edge-01 --dry-run\n" +
			"  spore adopt configs edge-01 --partition 3d1219c7-c4c5-404a-aa1f-6d2a48adfda4",
		Options: map[string]string{"partition": "PARTUUID of the partition (default: the only one that there is)"},
		Found:   found,
		Show:    show,
	}.Command()
}

func found(node string, results []json.RawMessage, o *nodeapi.Order) (confirm, lost string, err error) {
	list, err := candidates(results)
	if err != nil {
		return "", "", err
	}
	chosen, err := choose(list, o.Arguments["partition"])
	if err != nil {
		return "", "", err
	}
	o.Arguments = map[string]string{"partition": chosen.Partition}
	return chosen.Partition, "This makes " + chosen.String() + ", the state of " + node, nil
}

func candidates(results []json.RawMessage) (out []candidate, err error) {
	for _, part := range results {
		var some []candidate
		if err := json.Unmarshal(part, &some); err != nil {
			return nil, fmt.Errorf("the answer is malformed: %w", err)
		}
		out = append(out, some...)
	}
	return out, nil
}

// choose finds the partition that was named, or the only one.
func choose(list []candidate, partition string) (candidate, error) {
	if partition == "" && len(list) == 1 {
		return list[0], nil
	}
	var lines []string
	for _, c := range list {
		if partition != "" && strings.EqualFold(c.Partition, partition) {
			return c, nil
		}
		lines = append(lines, "\n  "+c.String())
	}
	switch {
	case len(list) == 0:
		return candidate{}, errors.New("the node's disks have no state of another node")
	case partition == "":
		return candidate{}, exit.Usage(fmt.Errorf("there are %d partitions; name one with --partition:%s", len(list), strings.Join(lines, "")))
	}
	return candidate{}, fmt.Errorf("there is no partition %s; there are:%s", partition, strings.Join(lines, ""))
}

func show(w io.Writer, _ string, results []json.RawMessage) error {
	list, err := candidates(results)
	if err != nil {
		return err
	}
	for _, c := range list {
		if _, err := fmt.Fprintln(w, c); err != nil {
			return err
		}
	}
	return nil
}
