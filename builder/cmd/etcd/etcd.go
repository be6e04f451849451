// Package etcd is the command `spore etcd`: the members of etcd, and what is done when masters are lost for good.
package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/wire/nodeapi"
)

// role is that of masters.
const role = "control-plane"

// bringBound is how long a snapshot may take on its way.
const bringBound = time.Hour

// Command returns the command.
func Command() *cobra.Command {
	cmd := &cobra.Command{Use: "etcd", Short: "Look after etcd on the masters", Args: exit.Args(cobra.NoArgs)}
	node := func(node string, _ []string) string { return node }
	var from string
	restore := verb.One{
		Use: "restore [DIR] NODE", Verb: "etcd-restore",
		Short: "Make etcd anew on one master, from a snapshot",
		Long: `Restore makes a new etcd, of the master NODE alone, when most masters are lost for good: from the newest snapshot that
any master has, or with --from from a file that you have. It refuses while a quorum is alive; --force etcd gives that
up. Run it with --dry-run first: it says what would be lost. See docs/restore.md.`,
		Example: "  spore etcd restore master-01 --dry-run\n  spore etcd restore configs master-01 --from /srv/backup/etcd-….age",
		Confirm: node, Lost: func(node string, _ []string) string {
			return "what was written after the snapshot, and what all masters but " + node + " have, is given up"
		},
		Before: func(cmd *cobra.Command, c *reach.Cluster, o *nodeapi.Order) error {
			if from == "" {
				return nil
			}
			name, err := bring(cmd.Context(), c, from)
			o.Arguments["from"] = name
			return err
		},
	}.Command()
	restore.Flags().StringVar(&from, "from", "", "this file, which is brought to the master first")
	cmd.AddCommand(
		verb.One{
			Use: "members [DIR]", Verb: "etcd-members", Role: role, Short: "Show the members of etcd, and how they are",
			Long:    "Members asks the first master that answers who the members of etcd are, and each of them how it is.",
			Example: "  spore etcd members\n  spore etcd members configs --node master-02 --json", Show: showMembers,
		}.Command(),
		verb.One{
			Use: "snapshot [DIR]", Verb: "etcd-snapshot", Role: role, Short: "Save etcd now",
			Long:    "Snapshot has a master save etcd now. `spore snapshots` lists what there is, and fetches it.",
			Example: "  spore etcd snapshot\n  spore etcd snapshot configs --node master-01",
		}.Command(),
		verb.One{
			Use: "remove [DIR] MEMBER", Verb: "etcd-remove", Role: role, Words: []string{"member"},
			Short: "Take a member out of etcd that is lost for good",
			Long: `Remove takes a member out of etcd, so that the others are a smaller quorum until the master is replaced. A master that
starts with an empty disk joins by itself, and needs none of this. It refuses where fewer members would serve than a
majority needs.`,
			Example: "  spore etcd remove master-03 --dry-run\n  spore etcd remove configs master-03 --confirm master-03",
			Confirm: func(_ string, words []string) string { return words[0] },
			Lost:    func(_ string, words []string) string { return "etcd of " + words[0] + " is no member any more" },
		}.Command(),
		restore,
		verb.One{
			Use: "forget [DIR] NODE", Verb: "etcd-forget", Short: "Give up the data of a master whose etcd was restored elsewhere",
			Long: `Forget renames what the master NODE has of an etcd that was restored on another one, and has it join. It refuses where
no other master answers for a quorum, and where NODE is one of the quorum.`,
			Example: "  spore etcd forget master-02 --dry-run\n  spore etcd forget configs master-02 --confirm master-02",
			Confirm: node, Lost: func(node string, _ []string) string {
				return "what etcd of " + node + " has is given up; it is renamed and kept"
			},
		}.Command(),
		verb.One{
			Use: "stop [DIR] NODE", Verb: "etcd-stop", Short: "Stop etcd of a master, before its quorum is given up",
			Long: `Stop stops the API server and etcd of the master NODE until the machine is started again, or its unit
(spore restart NODE etcd). It is for one case: a quorum is alive, and what it has is worth nothing (docs/restore.md).`,
			Example: "  spore etcd stop master-02 --force etcd\n  spore etcd stop configs master-03 --force etcd --confirm master-03",
			Confirm: node, Lost: func(node string, _ []string) string { return "etcd of " + node + " stops" },
		}.Command(),
	)
	return cmd
}

// member is a member, as spore-etcd shows it.
type member struct {
	Name, ID                 string
	Learner, Leader, Started bool
	Version, Problem         string
	Size                     int64
}

func showMembers(w io.Writer, _ string, results []json.RawMessage) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MEMBER\tSTATE\tVERSION\tDATABASE")
	for _, part := range results {
		var list []member
		if err := json.Unmarshal(part, &list); err != nil {
			return fmt.Errorf("the answer is malformed: %w", err)
		}
		for _, m := range list {
			state := "votes"
			switch {
			case m.Problem != "":
				state = "does not answer: " + m.Problem
			case !m.Started:
				state = "has not started yet"
			case m.Learner:
				state = "is brought up to date"
			case m.Leader:
				state = "leads"
			}
			name := m.Name
			if name == "" {
				name = m.ID
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%.1f MiB\n", nodeapi.Harmless(name), nodeapi.Harmless(state), nodeapi.Harmless(m.Version), float64(m.Size)/(1<<20))
		}
	}
	return t.Flush()
}

// bring sends a snapshot to the master, and returns its name. Its name has its hash, so a file that was renamed gets
// the name that it should have.
func bring(ctx context.Context, c *reach.Cluster, file string) (string, error) {
	name, err := nodeapi.ParseSnapshotName(filepath.Base(file))
	if err != nil {
		return "", exit.Usage(fmt.Errorf("%s: %w", file, err))
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("bring the snapshot: %w", err)
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", fmt.Errorf("bring the snapshot: %w", err)
	}
	if nodeapi.SnapshotHash(hash) != name.Hash {
		return "", fmt.Errorf("%s is damaged: it has another hash than its name says", file)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("bring the snapshot: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, bringBound)
	defer cancel()
	node := c.Nodes[0].Name
	body, err := c.Client.Ask(ctx, node, nodeapi.Request{Method: http.MethodPut, Path: nodeapi.SnapshotsPath + "/" + name.String(), Body: f})
	if err != nil {
		return "", fmt.Errorf("bring the snapshot to %s: %w", node, err)
	}
	var said bytes.Buffer
	_, err = io.Copy(&said, io.LimitReader(body, 1<<10))
	if err = errors.Join(err, body.Close()); err != nil {
		return "", fmt.Errorf("bring the snapshot to %s: %w: %s", node, err, strings.TrimSpace(said.String()))
	}
	return name.String(), nil
}
