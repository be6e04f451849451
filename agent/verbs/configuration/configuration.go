// Package configuration is the verb configuration-show: which files of the operator's folder this node's configuration
// was compiled from, by their hashes, and the text of one. They are those of the cluster part, which has no secret.
package configuration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"spore/agent/verbs"
	"spore/wire/machine"
)

// Bounds of what is read: files, bytes of one, and bytes of one whose text is given.
const (
	maxFiles = 5000
	maxFile  = 64 << 20
	maxText  = 128 << 10
)

// made are folders of the part that were made from the others, and not written by the operator.
var made = []string{"compiled", "firmware", "pki"}

// readable tells whether the text of a file is given: the settings of the cluster, of services and of nodes. What own
// roles, units and objects of Kubernetes have is told by its hash alone.
func readable(name string) bool {
	if path.Ext(name) != ".yaml" {
		return false
	}
	return name == "cluster.yaml" || strings.HasPrefix(name, "services/") || strings.HasPrefix(name, "nodes/")
}

// Show answers with the files, or with the one that was asked for and its text.
func Show(ctx context.Context, r *verbs.Run) (string, error) {
	root, err := os.OpenRoot(r.Machine.Part.Dir)
	if err != nil {
		return "", fmt.Errorf("open the cluster part: %w", err)
	}
	defer root.Close()
	if name := r.Argument("file", ""); name != "" {
		return text(r, root, name)
	}
	var files []machine.ConfigurationFile
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case e.IsDir() && slices.Contains(made, name):
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		case len(files) == maxFiles:
			return fmt.Errorf("it has more than %d files", maxFiles)
		}
		f, err := hashed(root, name)
		files = append(files, f)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the cluster part: %w", err)
	}
	return fmt.Sprintf("%d files", len(files)), verbs.Results(r, files)
}

func hashed(root *os.Root, name string) (machine.ConfigurationFile, error) {
	out := machine.ConfigurationFile{Path: name}
	f, err := root.Open(name)
	if err != nil {
		return out, err
	}
	defer f.Close()
	h := sha256.New()
	if out.Size, err = io.Copy(h, io.LimitReader(f, maxFile+1)); err == nil && out.Size > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	out.SHA256 = hex.EncodeToString(h.Sum(nil))
	return out, err
}

func text(r *verbs.Run, root *os.Root, name string) (string, error) {
	if !readable(name) {
		return "", fmt.Errorf("the text of %s is not shown: that of cluster.yaml, services/ and nodes/ is", name)
	}
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the configuration of this node has no %s", name)
	}
	if err != nil {
		return "", fmt.Errorf("read the cluster part: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the cluster part: %w", err)
	case len(data) > maxText:
		return "", fmt.Errorf("%s has more than %d bytes", name, maxText)
	case !utf8.Valid(data):
		return "", fmt.Errorf("%s is not text", name)
	}
	sum := sha256.Sum256(data)
	return name, r.Result([]machine.ConfigurationFile{{Path: name, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data)), Text: string(data)}})
}
