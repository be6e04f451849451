package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/cachefolder"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/builder/payload"
	"spore/builder/payload/carry"
	"spore/builder/source"
	"spore/builder/store"
	"spore/storage/atomicfile"
)

// carried is what an export or an import prints as an object.
type carried struct {
	Programs int   `json:"programs"`
	Jars     int   `json:"jars"`
	Size     int64 `json:"size"`
	// Present, which only an import has, were in the cache already.
	Present  int      `json:"present"`
	Missing  []string `json:"missing"`
	Unpinned []string `json:"unpinned"`
}

func exportCommand(f *flags) *cobra.Command {
	var file, tree string
	cmd := &cobra.Command{
		Use:   "export --payloads FILE",
		Short: "Write the compiled payloads to a file, for another machine",
		Long: `Export writes what the cache has of the payloads, which are the compiled programs and the jars, into an archive (tar,
Zstandard). A machine that imports it compiles none of them.

Each is compared with the checksum that is committed beside its pins, in payloads/NAME/program.sum or pom.sum.`,
		Example: "  spore cache export --payloads payloads.tar.zst",
		Args:    exit.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return exit.Usage(errors.New("say where they go with --payloads FILE"))
			}
			r, err := withPayloads(cmd.Context(), f.cache, tree, func(st *store.Store, _ []string, programs []payload.Program) (carry.Result, error) {
				return exportTo(file, st, programs)
			})
			if err != nil {
				return err
			}
			return f.printCarried(cmd.OutOrStdout(), r, "are in "+file)
		},
	}
	cmd.Flags().StringVar(&file, "payloads", "", "the file to write")
	cmd.Flags().StringVar(&tree, "source", "", "the source tree of spore (default: found from here upwards)")
	return cmd
}

func importCommand(f *flags) *cobra.Command {
	var tree string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import the compiled payloads of another machine",
		Long: `Import takes what spore cache export wrote. Each program and jar is compared with the checksum that is committed beside
its pins, in payloads/NAME/program.sum or pom.sum; if one differs, the import stops and exits with 1. Payloads of other
pins are left out.`,
		Example: "  spore cache import payloads.tar.zst",
		Args:    exit.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			r, err := withPayloads(cmd.Context(), f.cache, tree, func(st *store.Store, dirs []string, programs []payload.Program) (carry.Result, error) {
				r, err := carry.Import(in, st, programs)
				for _, dir := range dirs {
					if err == nil && payload.OfJars(dir) {
						err = payload.TrustJars(st, dir)
					}
				}
				return r, err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return f.printCarried(cmd.OutOrStdout(), r, "are in the cache")
		},
	}
	cmd.Flags().StringVar(&tree, "source", "", "the source tree of spore (default: found from here upwards)")
	return cmd
}

// carrier exports or imports the programs of the payloads in the folders.
type carrier func(st *store.Store, folders []string, programs []payload.Program) (carry.Result, error)

// withPayloads opens the cache and hands over what can be carried of all payloads of the source tree, and their folders.
func withPayloads(ctx context.Context, cacheFlag, tree string, use carrier) (r carry.Result, err error) {
	if tree, err = inputs.FindSource(tree, "."); err != nil {
		return r, err
	}
	names, err := source.Payloads(tree)
	if err != nil {
		return r, err
	}
	st, err := cachefolder.Open(cacheFlag)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	var dirs []string
	var programs []payload.Program
	for _, name := range names {
		dir := source.Payload(tree, name)
		list, err := payload.Build(ctx, st, dir, payload.Options{Env: os.Environ(), Plan: true})
		if err != nil {
			return r, err
		}
		dirs = append(dirs, dir)
		for _, p := range list {
			if p.Compiled || p.Artifact != nil { // all else is in the source tree
				programs = append(programs, p)
			}
		}
	}
	return use(st, dirs, programs)
}

// exportTo writes the file as a whole or not at all.
func exportTo(file string, st *store.Store, programs []payload.Program) (r carry.Result, err error) {
	err = atomicfile.Fill(file, 0o644, atomicfile.Whole, func(out *os.File) error {
		r, err = carry.Export(out, st, programs)
		return err
	})
	return r, err
}

func (f *flags) printCarried(w io.Writer, r carry.Result, where string) error {
	if f.json {
		c := carried{r.Programs, r.Jars, r.Size, r.Present, append([]string{}, r.Missing...), append([]string{}, r.Unpinned...)}
		return json.NewEncoder(w).Encode(c)
	}
	fmt.Fprintf(w, "%d programs and %d jars, %s, %s\n", r.Programs, r.Jars, size(r.Size), where)
	if r.Present > 0 {
		fmt.Fprintf(w, "%d were there already\n", r.Present)
	}
	if len(r.Missing) > 0 {
		fmt.Fprintf(w, "not needed by any build: %s\n", strings.Join(r.Missing, ", "))
	}
	if len(r.Unpinned) > 0 {
		fmt.Fprintf(w, "left out, because they belong to other pins than the checksums beside them: %s\n", strings.Join(r.Unpinned, ", "))
	}
	return nil
}
