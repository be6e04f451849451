// Package diff is the command `spore diff`: what two images have that is not the same.
package diff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/compare"
	"spore/builder/rootfs"
)

// shown is how many lines of a list are printed without --files.
const shown = 20

// Command returns the command.
func Command() *cobra.Command {
	var asJSON, all, exitCode bool
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two images: packages, programs, files, sizes",
		Long: `Diff compares two images: Debian packages, payloads with the Go modules in them, container images, the kernel and
its command line, files of the root and of the cluster part, and sizes as they are stored. It names programs with
set-user-ID, set-group-ID or capabilities that are new, gone or changed. It names files of the configuration that
differ, and shows none of their content.

OLD and NEW are disk images, ISOs, folders for network boot or folders of outputs, in any combination.`,
		Example: "  spore diff out.last out\n  spore diff old/spore.img out/spore.img --files\n  spore diff old out --json --exit-code",
		Args:    exit.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			old, err := rootfs.Open(args[0])
			if err != nil {
				return err
			}
			defer old.Close()
			fresh, err := rootfs.Open(args[1])
			if err != nil {
				return err
			}
			defer fresh.Close()
			d, err := compare.Images(old, fresh)
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(d)
			} else {
				err = show(cmd.OutOrStdout(), d, all)
			}
			if err == nil && exitCode && !d.Same() {
				return fmt.Errorf("%s and %s differ", args[0], args[1])
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&all, "files", false, "print every file and every size, and modules of payloads")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 1 when something differs")
	return cmd
}

func show(w io.Writer, d *compare.Diff, all bool) error {
	if d.Same() {
		_, err := fmt.Fprintln(w, "the same")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	list(t, "IMAGE", d.Image, all)
	list(t, "KERNEL ARGUMENT", d.Arguments, all)
	list(t, "SECTION OF THE UKI", d.UKI, all)
	list(t, "PACKAGE", d.Packages, true)
	list(t, "SET-USER-ID, SET-GROUP-ID, CAPABILITIES", d.Privileged, true)
	if len(d.Payloads) > 0 {
		fmt.Fprintf(t, "\nPAYLOAD\tOLD\tNEW\n")
	}
	for _, p := range d.Payloads {
		fmt.Fprintf(t, "%s\t%s\t%s\n", p.Name, cmp.Or(p.Old, "-"), cmp.Or(p.New, "-"))
		for _, m := range p.Modules {
			if all {
				fmt.Fprintf(t, "  %s\t%s\t%s\n", m.Name, cmp.Or(m.Old, "-"), cmp.Or(m.New, "-"))
			}
		}
		if n := len(p.Modules); n > 0 && !all {
			fmt.Fprintf(t, "  %d Go modules differ: --files\t\t\n", n)
		}
	}
	list(t, "CONTAINER IMAGE", d.Images, all)
	showFiles(t, "FILE OF THE CLUSTER PART", d.Cluster, true)
	showFiles(t, "FILE OF THE ROOT", d.Root, all)
	showSizes(t, "PART", d.Parts, true)
	showSizes(t, "STORED IN THE ROOT", d.Sizes, all)
	return t.Flush()
}

func list(w io.Writer, title string, values []compare.Value, all bool) {
	if len(values) > 0 {
		fmt.Fprintf(w, "\n%s\tOLD\tNEW\n", title)
	}
	for _, v := range values {
		fmt.Fprintf(w, "%s\t%s\t%s\n", v.Name, short(cmp.Or(v.Old, "-"), all), short(cmp.Or(v.New, "-"), all))
	}
}

// short cuts what would make a table unreadable.
func short(text string, all bool) string {
	const most = 60
	if all || len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

func showFiles(w io.Writer, title string, files []compare.File, all bool) {
	if len(files) == 0 {
		return
	}
	count := map[string]int{}
	for _, f := range files {
		count[f.Change]++
	}
	fmt.Fprintf(w, "\n%s\tCHANGE\tBYTES\t(%d added, %d removed, %d changed)\n", title, count[compare.Added], count[compare.Removed], count[compare.Changed])
	left := 0
	for n, f := range files {
		if !all && n >= shown {
			left++
			continue
		}
		change := f.Change
		if len(f.What) > 0 {
			change += ": " + strings.Join(f.What, ", ")
		}
		fmt.Fprintf(w, "%s\t%s\t%+d\t%s\n", path.Clean(f.Path), change, f.NewSize-f.OldSize, f.Origin)
	}
	if left > 0 {
		fmt.Fprintf(w, "%d others: --files\t\t\t\n", left)
	}
}

func showSizes(w io.Writer, title string, sizes []compare.Size, all bool) {
	if len(sizes) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\tOLD\tNEW\tMORE\n", title)
	for n, s := range sizes {
		if !all && n >= shown {
			fmt.Fprintf(w, "%d others: --files\t\t\t\n", len(sizes)-shown)
			return
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%+d\n", s.Name, s.Old, s.New, s.New-s.Old)
	}
}
