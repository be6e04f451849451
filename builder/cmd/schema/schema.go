// Package schema is the command `spore schema`: the JSON Schemas that editors read, beside the files of a
// configuration.
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/inputs"
	"spore/cluster"
	"spore/cluster/check"
	"spore/cluster/regular"
	"spore/cluster/role"
	"spore/cluster/role/jsonschema"
	"spore/configs"
)

// Dir holds the schemas, in a configuration folder.
const Dir = ".schema"

// ErrRoles is the error for roles whose settings nobody can read.
var ErrRoles = errors.New("the roles have errors, so that there is no schema of their settings")

// Command returns the command.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [DIR]",
		Short: "Write the JSON Schemas that editors read beside a configuration",
		Long: `Schema writes the JSON Schemas of the files of the folder DIR (configs when left out) to DIR/.schema, and prints
the names of those that changed: one for each kind of file, and services/NAME.json for the settings of each role that
you wrote. Run it after an edit of the settings in roles/NAME.yaml, and after an update of Spore. An editor reads the
schema that the first line of a file names:

  # yaml-language-server: $schema=../.schema/services/NAME.json

A schema says less than spore validate.`,
		Example: "  spore schema\n  spore schema site",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := inputs.Dir(args)
			c, report := cluster.Check(regular.Folder(dir), cluster.Options{})
			faults := faultsOf(report)
			fmt.Fprint(cmd.OutOrStdout(), faults.Under(dir))
			if len(faults) > 0 {
				return ErrRoles
			}
			written, err := Write(dir, c.Roles)
			for _, name := range written {
				fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(dir, name))
			}
			return err
		},
	}
}

// faultsOf are the errors without whose end nothing is known of the settings of roles: in roles/, and a folder that
// cannot be read.
func faultsOf(report check.Report) check.Report {
	var out check.Report
	for _, p := range report {
		below := strings.HasPrefix(p.File, role.Dir+"/") || p.File == role.Dir
		unread := p.File == "cluster.yaml" && strings.HasPrefix(p.Message, "cannot be read")
		if p.Severity == check.Error && (below || unread) {
			out = append(out, p)
		}
	}
	return out
}

// Write brings the schemas of a configuration folder up to date, and returns the names of those that it wrote, those of
// roles last. The definitions of roles have no faults.
func Write(dir string, roles []*role.Definition) ([]string, error) {
	names, err := fs.Glob(configs.Files, Dir+"/*.json")
	if err != nil {
		return nil, err
	}
	var written []string
	for _, name := range names {
		data, err := fs.ReadFile(configs.Files, name)
		if err != nil {
			return written, err
		}
		if written, err = bring(dir, name, data, written); err != nil {
			return written, err
		}
	}
	for _, d := range roles {
		data, err := jsonschema.Settings(d)
		if err != nil {
			return written, err
		}
		if written, err = bring(dir, OfSettings(d.Name), data, written); err != nil {
			return written, err
		}
	}
	return written, nil
}

// OfSettings is the schema of services/NAME.yaml of a role, in the configuration folder. It has a folder of its own: a
// role may have the name of another schema, such as image.
func OfSettings(name string) string { return path.Join(Dir, "services", name+".json") }

// bring writes a file that is missing or differs, and adds its name.
func bring(dir, name string, data []byte, written []string) ([]string, error) {
	file := filepath.Join(dir, filepath.FromSlash(name))
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return written, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return written, fmt.Errorf("write schema: %w", err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return written, fmt.Errorf("write schema: %w", err)
	}
	return append(written, name), nil
}
