// Package initialize is the command `spore init`.
package initialize

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/configs"
	"spore/examples"
)

// Command returns the command.
func Command() *cobra.Command {
	example, role, ks := starter, "", ""
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a commented example configuration, a role, or the answer file of a kickstart file",
		Long: `Init writes an example cluster to the folder DIR (configs when left out), with comments and a cluster id of its own. It
overwrites nothing: when one of the files exists already, it stops before it writes. A .gitignore excludes the files
with keys that commands write; an existing one stays as it is. The examples:

  starter       six machines with every service, and a comment on every key
  plant         the same six, of which the broker and the machine with Ceph's monitor run pods too
  kubernetes    a control plane and a worker
  edge          three machines with MQTT brokers and DNS servers
  observed      a machine with both, and one that keeps the metrics and logs of all
  own-programs  a machine with roles of your own: a service in Python, and a script that a timer starts
  own-mqtt      a machine whose MQTT broker is a role of your own

With --role NAME, it writes a role of your own into the configuration DIR: roles/NAME.yaml with a comment on every key,
a template, a unit and settings, and the schemas for editors. It prints what to add to cluster.yaml; the folder is then
valid as it is.

With --from-kickstart FILE, it translates a kickstart file into an answer file for an unattended installation, and
writes that to the file which is named instead of DIR (spore-answers.yaml when left out). It takes the lines network,
ignoredisk, clearpart, autopart, and reboot, poweroff or halt. It prints what belongs into the node's file and
cluster.yaml, and lists with line numbers all that has no meaning here.`,
		Example: "  spore init\n  spore init site --example edge && spore validate site\n  spore init site --role gateway\n" +
			"  spore init edge-01.yaml --from-kickstart ks.cfg",
		Args: exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(exampleNames, example) {
				return exit.Usage(fmt.Errorf("there is no example %q; write one of %s", example, strings.Join(exampleNames, ", ")))
			}
			dir := "configs"
			if len(args) == 1 {
				dir = args[0]
			}
			if cmd.Flags().Changed("from-kickstart") {
				if cmd.Flags().Changed("role") || cmd.Flags().Changed("example") {
					return exit.Usage(errors.New("--from-kickstart writes an answer file alone; run spore init twice"))
				}
				to := answersDefault
				if len(args) == 1 {
					to = args[0]
				}
				return translateKickstart(cmd.OutOrStdout(), ks, to)
			}
			if cmd.Flags().Changed("role") {
				if cmd.Flags().Changed("example") {
					return exit.Usage(errors.New("--example writes a new folder and --role writes into one; run spore init twice"))
				}
				written, err := WriteRole(dir, role)
				if err != nil {
					return err
				}
				printRole(cmd.OutOrStdout(), dir, role, written)
				return nil
			}
			written, err := Write(dir, example, rand.Reader)
			if err != nil {
				return err
			}
			for _, name := range written {
				fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(dir, name))
			}
			if !slices.Contains(written, ignoreFile) {
				fmt.Fprintf(cmd.OutOrStdout(), "%s exists already: add the files with keys that commands write, see docs/keys.md\n", filepath.Join(dir, ignoreFile))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "edit the nodes in %s, then: spore validate %s\n", filepath.Join(dir, "cluster.yaml"), dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&example, "example", example, "which example: "+strings.Join(exampleNames, ", "))
	cmd.Flags().StringVar(&role, "role", "", "write a role of that name into the folder, which exists")
	cmd.Flags().StringVar(&ks, "from-kickstart", "", "translate this kickstart file into an answer file")
	return cmd
}

// ignoreFile keeps keys out of a repository.
const ignoreFile = ".gitignore"

// starter is the example that is configs/; the others are folders of examples/.
const starter = "starter"

var exampleNames = []string{starter, "plant", "kubernetes", "edge", "observed", "own-programs", "own-mqtt"}

// Write puts the example of that name into dir, and the schemas beside it, and returns the names of the files, sorted.
// random gives the cluster id.
func Write(dir, example string, random io.Reader) ([]string, error) {
	files, err := read(example)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil && name == ignoreFile {
			delete(files, name) // Whoever has a repository often has one.
		} else if err == nil {
			return nil, fmt.Errorf("%s exists already and is not overwritten; name another folder", filepath.Join(dir, name))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("write starter folder: %w", err)
		}
	}
	names = slices.Sorted(maps.Keys(files))
	id, err := uuid.NewRandomFromReader(random)
	if err != nil {
		return nil, fmt.Errorf("make a cluster id: %w", err)
	}
	for _, name := range names {
		data := files[name]
		if name == "cluster.yaml" {
			data = clusterID.ReplaceAll(data, []byte("id: "+id.String()))
		}
		if err := writeNew(filepath.Join(dir, name), data); err != nil {
			return nil, fmt.Errorf("write starter folder: %w", err)
		}
	}
	return names, nil
}

// clusterID is the line of cluster.yaml that each folder has for itself.
var clusterID = regexp.MustCompile(`(?m)^id: [0-9a-f-]{36}$`)

// read returns the files of an example by their names, and the schemas, to which the first line of each of them leads.
func read(example string) (map[string][]byte, error) {
	schemas, err := fs.Sub(configs.Files, ".schema")
	if err != nil {
		return nil, err
	}
	var folder fs.FS = configs.Files
	if example != starter {
		if folder, err = fs.Sub(examples.Files, example); err != nil {
			return nil, err
		}
	}
	files := map[string][]byte{}
	if err := collect(files, folder, ""); err != nil {
		return nil, err
	}
	for name, data := range files {
		files[name] = bytes.Replace(data, []byte("../../configs/.schema/"), []byte(".schema/"), 1)
	}
	if files[ignoreFile], err = fs.ReadFile(configs.Files, ignoreFile); err != nil {
		return nil, err
	}
	return files, collect(files, schemas, ".schema")
}

func collect(files map[string][]byte, folder fs.FS, under string) error {
	return fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[path.Join(under, name)], err = fs.ReadFile(folder, name)
		return err
	})
}

// writeNew writes a file that must not exist.
func writeNew(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
