package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"spore/builder/cmd/cachefolder"
	"spore/builder/cmd/exit"
	"spore/builder/store"
	"spore/fleet/duration"
)

func pruneCommand(f *flags) *cobra.Command {
	var to, olderThan string
	var all, dry bool
	cmd := &cobra.Command{
		Use:   "prune [--to SIZE | --older-than TIME | --all]",
		Short: "Remove the objects that were unused for the longest time",
		Long: `Prune removes objects from the cache. Without a flag, and with --to, it removes those that were unused for the longest
time, until the cache has the size of its limit, or of --to. With --older-than it removes what was unused for that time,
with --all everything.

It may run during builds. What a running build has used stays.`,
		Example: "  spore cache prune --to 5GiB\n  spore cache prune --older-than 30d --dry-run\n  spore cache prune --all",
		Args:    exit.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o := store.PruneOptions{All: all, DryRun: dry}
			if to != "" {
				if o.To, err = store.ParseSize(to); err != nil {
					return exit.Usage(fmt.Errorf("--to: %w", err))
				}
			}
			if olderThan != "" {
				if o.Unused, err = duration.Parse(olderThan); err != nil {
					return exit.Usage(fmt.Errorf("--older-than: %w", err))
				}
			}
			st, err := cachefolder.Open(f.cache)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, st.Close()) }()
			if to == "" && olderThan == "" && !all {
				if o.To, err = cachefolder.Limit(st.Dir()); err != nil {
					return err
				}
				if o.To == 0 {
					return exit.Usage(errors.New("this cache has no limit; give its size with --to, or use --older-than or --all"))
				}
			}
			p, err := st.Prune(o)
			if err != nil {
				return err
			}
			if f.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(p)
			}
			return printPruned(cmd.OutOrStdout(), p, dry)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the size to come down to, such as 5GiB")
	cmd.Flags().StringVar(&olderThan, "older-than", "", "remove objects that were unused for this time, such as 30d or 12h")
	cmd.Flags().BoolVar(&all, "all", false, "remove everything")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would be removed, and remove nothing")
	cmd.MarkFlagsMutuallyExclusive("to", "older-than", "all")
	return cmd
}

func printPruned(w io.Writer, p store.Pruned, dry bool) error {
	verb := "removed"
	if dry {
		verb = "would remove"
	}
	fmt.Fprintf(w, "%s %d objects, %s; %s are left\n", verb, p.Removed, size(p.Freed), size(p.Left))
	if p.InUse > 0 {
		fmt.Fprintf(w, "%d more could not be removed, because %d running builds or other commands use them\n", p.InUse, p.Sessions)
	}
	return nil
}
