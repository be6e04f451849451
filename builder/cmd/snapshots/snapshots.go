// Package snapshots is the command `spore snapshots`: what masters have saved of etcd, and a copy of it for the operator.
package snapshots

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/cmd/reach"
	"spore/cluster/facts"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// Command returns the command.
func Command() *cobra.Command {
	var f reach.Flags
	var fetch string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "snapshots [DIR] [--fetch FOLDER]",
		Short: "List the etcd snapshots (backups) of the masters, and fetch the newest",
		Long: `Snapshots lists what the masters of the cluster in DIR (configs when left out) have saved of etcd, the newest first.
With --fetch it downloads the newest one into a folder, unless it is there already, and compares it with the hash in its
name. Run it from a timer to have backups outside the cluster.

Snapshots are encrypted. The key etcd-snapshot-key of the operator's folder, or of a master's bundle, decrypts them.`,
		Example: "  spore snapshots\n  spore snapshots configs --fetch /srv/backup\n  spore snapshots configs --node master-01 --json",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := inputs.Dir(args)
			c, err := f.Open(cmd, dir, nodeapi.Admin)
			if err != nil {
				return err
			}
			c.Nodes = slices.DeleteFunc(c.Nodes, func(n facts.Node) bool { return !slices.Contains(n.Roles, "control-plane") })
			if len(c.Nodes) == 0 {
				return errors.New("these nodes are not masters")
			}
			return run(cmd, c, fetch, asJSON)
		},
	}
	f.Register(cmd, true)
	cmd.Flags().StringVar(&fetch, "fetch", "", "get the newest one into this folder")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a list of objects")
	return cmd
}

// shown is a snapshot, and who has it.
type shown struct {
	Name     string    `json:"name"`
	Taken    time.Time `json:"taken"`
	Revision int64     `json:"revision"`
	// Size is in bytes.
	Size int64    `json:"size"`
	By   string   `json:"by"`
	On   []string `json:"on"`

	entry nodeapi.Snapshot
}

func run(cmd *cobra.Command, c *reach.Cluster, fetch string, asJSON bool) error {
	list, problems := known(cmd.Context(), c)
	for _, p := range problems {
		fmt.Fprintln(cmd.ErrOrStderr(), p)
	}
	if len(problems) == len(c.Nodes) {
		return errors.New("no master answers")
	}
	if fetch != "" {
		if len(list) == 0 {
			return errors.New("the masters have no snapshot yet")
		}
		path, err := get(cmd.Context(), c, list[0], fetch)
		if err != nil {
			return err
		}
		if !asJSON {
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		}
		list = list[:1]
	}
	if asJSON {
		return nodeapi.WriteJSON(cmd.OutOrStdout(), list, "")
	}
	for _, s := range list {
		fmt.Fprintf(cmd.OutOrStdout(), "%s  revision %-10d %8.1f KiB  taken by %s, on %v\n", s.Taken.Format(time.RFC3339), s.Revision, float64(s.Size)/(1<<10), s.By, s.On)
	}
	return nil
}

// known asks all masters; the newest comes first.
func known(ctx context.Context, c *reach.Cluster) (out []shown, problems []error) {
	out = []shown{}
	answers := reach.Each(ctx, c, func(ctx context.Context, n facts.Node) ([]nodeapi.Snapshot, error) {
		body, err := c.Client.Ask(ctx, n.Name, nodeapi.Request{Path: nodeapi.SnapshotsPath})
		if err != nil {
			return nil, err
		}
		defer body.Close()
		return nodeapi.ReadSnapshots(body)
	})
	for i, a := range answers {
		if a.Err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", c.Nodes[i].Name, a.Err))
			continue
		}
		for _, e := range a.Value {
			at := slices.IndexFunc(out, func(s shown) bool { return s.entry == e })
			if at < 0 {
				out, at = append(out, shown{e.Name.String(), e.Name.Taken, e.Name.Revision, e.Size, e.Name.Node, nil, e}), len(out)
			}
			out[at].On = append(out[at].On, c.Nodes[i].Name)
		}
	}
	slices.SortStableFunc(out, func(a, b shown) int { return b.Taken.Compare(a.Taken) })
	return out, problems
}

// get gets a snapshot from the first master that gives it whole.
func get(ctx context.Context, c *reach.Cluster, s shown, folder string) (string, error) {
	path := filepath.Join(folder, s.Name)
	if info, err := os.Stat(path); err == nil && info.Size() == s.Size {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	var errs []error
	for _, node := range s.On {
		err := getFrom(ctx, c, node, s.entry, path)
		if err == nil {
			return path, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", node, err))
	}
	return "", errors.Join(errs...)
}

func getFrom(ctx context.Context, c *reach.Cluster, node string, e nodeapi.Snapshot, path string) error {
	request := nodeapi.Request{Path: nodeapi.SnapshotsPath + "/" + e.Name.String()}
	return c.Stream(ctx, node, request, c.Timeout, func(body io.Reader) error {
		return atomicfile.Fill(path, 0o600, atomicfile.Whole, func(f *os.File) error {
			sum := sha256.New()
			n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(body, e.Size+1))
			if err != nil {
				return err
			}
			if got := nodeapi.SnapshotHash(sum); n != e.Size || got != e.Name.Hash {
				return fmt.Errorf("the downloaded file is not %s: %d bytes with the hash %s", e.Name, n, got)
			}
			return nil
		})
	})
}
