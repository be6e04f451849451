// Package explainfile is the command `spore explain-file`: where a file of an image comes from.
package explainfile

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/explainfile"
	"spore/builder/manifest"
	"spore/builder/rootfs"
)

// shown is how many names of a list are printed.
const shown = 8

// Command returns the command.
func Command() *cobra.Command {
	var asJSON, noFollow bool
	cmd := &cobra.Command{
		Use:   "explain-file IMAGE PATH",
		Short: "Show which package or program a file of an image comes from, or why it is missing",
		Long: `Explain-file tells of a path of the root of an image: what it is, how much room it takes, which package, payload or file
of spore it comes from, and who asked for that package. Symbolic links are followed. If a package has the path and the
build left it out, it tells which step did so, and why.

IMAGE is a disk image, an ISO, a folder for network boot or a folder of outputs; the command needs only that. An unknown
path is an error, which lists similar names.`,
		Example: "  spore explain-file out/spore.img /usr/bin/openssl\n  spore explain-file out /usr/share/man/man1/ls.1.gz --json",
		Args:    exit.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := rootfs.Open(args[0])
			if err != nil {
				return err
			}
			defer i.Close()
			a, err := explainfile.Explain(i, args[1], !noFollow)
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(a)
			} else {
				err = show(cmd.OutOrStdout(), a)
			}
			if err != nil {
				return err
			}
			return problem(args[0], a)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&noFollow, "no-follow", false, "tell of a symbolic link itself")
	return cmd
}

// problem is the error of a path of which nothing is known.
func problem(image string, a *explainfile.Answer) error {
	if a.File != nil || a.LeftOut != nil {
		return nil
	}
	hint := ""
	if len(a.Near) > 0 {
		hint = "; there are " + strings.Join(a.Near, ", ")
	}
	return fmt.Errorf("%s has no %s, and no rule left it out%s", image, a.Path, hint)
}

func show(w io.Writer, a *explainfile.Answer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	for _, l := range a.Follows {
		row("link", "%s leads to %s", l.Path, l.Target)
	}
	if l := a.LeftOut; l != nil {
		row("left out", "%s", a.Path)
		row("because", "%s", l.Why)
		row("by", "step %s, which left out %s%s", l.Step, what(l.Files), l.Path)
		if l.Origin != "" {
			row("origin", "%s", l.Origin)
		}
	}
	if f := a.File; f != nil {
		row(f.Type, "%s", f.Path)
		row("mode", "%s", f.Mode)
		row("owner", "%s:%s", owner(f.User, f.UID), owner(f.Group, f.GID))
		if len(f.Attributes) > 0 {
			row("attributes", "%s", strings.Join(f.Attributes, " "))
		}
		if f.SHA256 != "" {
			row("size", "%d bytes, %d in the image", f.Size, f.Stored)
			row("SHA-256", "%s", f.SHA256)
		}
		if f.Contains > 0 {
			row("contains", "%d files and directories", f.Contains)
		}
		if len(f.Names) > 0 {
			row("other names", "%s", some(f.Names))
		}
		if len(f.Same) > 0 {
			row("same data", "%s; stored once", some(f.Same))
		}
		switch {
		case f.Source != "":
			row("from", "%s", f.Source)
		default:
			row("from", "unknown: the image has no table of origins, and no manifest of it is beside it")
		}
		showPackage(row, f.Package)
		showPayload(row, f.Payload)
		if f.Image != nil {
			row("image", "%s, %s", strings.Join(f.Image.Names, " "), f.Image.Digest)
		}
	}
	return t.Flush()
}

func showPackage(row func(name, format string, args ...any), p *explainfile.Package) {
	if p == nil {
		return
	}
	if p.Source != "" {
		row("source", "%s", p.Source)
	}
	row(".deb", "%d bytes, SHA-256 %s", p.Size, p.SHA256)
	if len(p.AskedBy) > 0 {
		row("asked for by", "%s", strings.Join(p.AskedBy, ", "))
	}
	if len(p.Because) > 1 {
		row("needed by", "%s", strings.Join(p.Because, " > "))
	}
}

func showPayload(row func(name, format string, args ...any), p *manifest.Payload) {
	if p == nil {
		return
	}
	row("payload", "%s, SHA-256 %s", strings.TrimSpace(p.Name+" "+p.Version), p.SHA256)
	if p.License != "" {
		row("licence", "%s", p.License)
	}
	if a := p.Artifact; a != nil {
		row("artifact", "%s:%s:%s", a.Group, a.Name, a.Version)
	}
	if len(p.Modules) > 0 {
		row("made of", "%d Go modules; --json lists them", len(p.Modules))
	}
}

func what(files []string) string {
	if len(files) > 0 {
		return "all of the package "
	}
	return ""
}

func owner(name string, id uint32) string {
	if name == "" {
		return fmt.Sprint(id)
	}
	return name
}

func some(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d others", strings.Join(names[:shown], ", "), len(names)-shown)
}
