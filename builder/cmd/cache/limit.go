package cache

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"spore/builder/cmd/cachefolder"
	"spore/builder/cmd/exit"
	"spore/builder/store"
)

func limitCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "limit [SIZE | none | default]",
		Short: "Show or set the maximum size of the cache",
		Long: `Limit shows or sets the size to which the cache is reduced after each build. The limit is stored in the cache folder;
the environment variable SPORE_CACHE_LIMIT, with a size or none, overrides it.`,
		Example: "  spore cache limit\n  spore cache limit 10GiB\n  spore cache limit none",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := cachefolder.Path(f.cache)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if err := setLimit(f.cache, args[0]); err != nil {
					return err
				}
			}
			n, err := cachefolder.Limit(dir)
			if err != nil {
				return err
			}
			if f.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]int64{"limit": n})
			}
			fmt.Fprintln(cmd.OutOrStdout(), limitText(n))
			return nil
		},
	}
}

func setLimit(flag, text string) error {
	if err := store.CheckLimit(text); err != nil {
		return exit.Usage(err)
	}
	st, err := cachefolder.Open(flag)
	if err != nil {
		return err
	}
	return errors.Join(st.SetLimit(text), st.Close())
}
