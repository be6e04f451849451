// Package initialize is the command `spore init`.
package initialize

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/configs"
)

// Command returns the command.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a documented starter folder",
		Long: `Init writes the example cluster to the folder DIR (configs when left out), with a comment on every key and a cluster
id of its own. It overwrites nothing: where one of the files is there already, it stops before it writes any.`,
		Example: "  spore init\n  spore init plant && spore validate plant",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "configs"
			if len(args) == 1 {
				dir = args[0]
			}
			written, err := Write(dir, rand.Reader)
			if err != nil {
				return err
			}
			for _, name := range written {
				fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(dir, name))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "edit the nodes in %s, then: spore validate %s\n", filepath.Join(dir, "cluster.yaml"), dir)
			return nil
		},
	}
}

// Write puts the starter folder into dir and returns the names of the files, sorted. random gives the cluster id.
func Write(dir string, random io.Reader) ([]string, error) {
	names, err := list()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return nil, fmt.Errorf("%s is there already and is not overwritten; name another folder", filepath.Join(dir, name))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("write starter folder: %w", err)
		}
	}
	id, err := uuid.NewRandomFromReader(random)
	if err != nil {
		return nil, fmt.Errorf("make a cluster id: %w", err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(configs.Files, name)
		if err != nil {
			return nil, err
		}
		if err := writeNew(filepath.Join(dir, name), bytes.ReplaceAll(data, []byte(configs.ExampleID), []byte(id.String()))); err != nil {
			return nil, fmt.Errorf("write starter folder: %w", err)
		}
	}
	return names, nil
}

func list() ([]string, error) {
	var names []string
	err := fs.WalkDir(configs.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	return names, err
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
