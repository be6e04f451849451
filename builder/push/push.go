// Package push makes a new configuration for running nodes: of a configuration folder and the image that the nodes were written
// from it makes the cluster part and the unified kernel image, by the code of `spore customize`, and has the cluster's key sign
// both (package update). How it comes to the nodes is not its business.
package push

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spore/builder/customize"
	"spore/builder/media"
	"spore/builder/pipeline"
	"spore/builder/progress"
	"spore/cluster"
	"spore/pki"
	"spore/wire/update"
)

// Options say what is made.
type Options struct {
	// Image is an image, or the output folder of `spore build`.
	Image string
	// Config is a loaded configuration without errors, Folder the folder that it was read from.
	Config *cluster.Config
	Folder fs.FS
	// Keys sign the UKI. One of an image that is signed is refused without them.
	Keys media.Keys
	// TrustUnsigned lets Keys sign an image that their certificate has not signed before.
	TrustUnsigned bool
	// Tree signs; it has to be kept afterwards.
	Tree *pki.Tree
	Now  time.Time
	// Force signs that nodes take it although their last one has a higher serial.
	Force bool
	// Progress tells a person what goes on. May be nil.
	Progress *progress.Printer
}

// Update is a signed configuration in a file, which Close removes.
type Update struct {
	Head update.Head
	// Notes are what the user should know, in plain words.
	Notes []string
	file  *os.File
	size  int64
}

// Make makes one.
func Make(o Options) (_ *Update, err error) {
	if !strings.EqualFold(o.Tree.Cluster, o.Config.Cluster.ID) {
		return nil, fmt.Errorf("the keys are of the cluster with the id %s, and the configuration has %s", o.Tree.Cluster, o.Config.Cluster.ID)
	}
	if len(o.Config.Public.SigningKeys) == 0 {
		return nil, errors.New("nodes accept a configuration only with the cluster's keys: name their folder with --pki")
	}
	image, err := find(o.Image)
	if err != nil {
		return nil, err
	}
	change, err := customize.Plan(customize.Options{Image: image, Config: o.Config, Folder: o.Folder, Keys: o.Keys, TrustUnsigned: o.TrustUnsigned, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	defer change.Close()
	u := &Update{Notes: change.Notes}
	defer func() {
		if err != nil {
			u.Close()
		}
	}()
	if u.file, err = os.CreateTemp("", "spore-push-*"); err != nil {
		return nil, err
	}
	return u, u.write(o, change.Content())
}

// find is the image that an output folder has: any of its media has the same root.
func find(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", fmt.Errorf("%w; name the image that the nodes were written from with --image", err)
	}
	if _, err := os.Stat(filepath.Join(name, media.NetbootRoot)); err == nil || !info.IsDir() {
		return name, nil
	}
	for _, member := range []string{pipeline.DiskName, pipeline.ISOName, pipeline.NetbootName} {
		if _, err := os.Stat(filepath.Join(name, member)); err == nil {
			return filepath.Join(name, member), nil
		}
	}
	return "", fmt.Errorf("%s has no image; with --image name the image that the nodes were written from", name)
}

func (u *Update) write(o Options, c customize.Content) error {
	part, err := os.ReadFile(c.ClusterFile)
	if err != nil {
		return err
	}
	h := update.Head{Force: o.Force, RootHash: c.RootHash, ClusterHash: c.ClusterHash}
	for _, n := range o.Config.Cluster.Nodes {
		h.Nodes = append(h.Nodes, n.Name)
	}
	slices.Sort(h.Nodes)
	if h.Part, err = update.Sum(bytes.NewReader(part)); err != nil {
		return err
	}
	if h.UKI, err = update.Sum(bytes.NewReader(c.UKI)); err != nil {
		return err
	}
	head, h, err := o.Tree.SignUpdate(h, o.Now)
	if err != nil {
		return err
	}
	u.Head = h
	for _, b := range [][]byte{head, part, c.UKI} {
		n, err := u.file.Write(b)
		if u.size += int64(n); err != nil {
			return fmt.Errorf("keep the update: %w", err)
		}
	}
	return nil
}

// Content is the update as it goes to a node; it may be read more than once.
func (u *Update) Content() *io.SectionReader { return io.NewSectionReader(u.file, 0, u.size) }

// Close removes it.
func (u *Update) Close() error {
	if u.file == nil {
		return nil
	}
	return errors.Join(u.file.Close(), os.Remove(u.file.Name()))
}
