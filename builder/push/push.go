// Package push makes running nodes be what a configuration folder and an image say. Of both it makes the cluster part
// and the unified kernel image, by the code of `spore customize`, and has the cluster's key sign these and the image's
// root by the indexes of their pieces (package update). It brings the update to nodes, and rolls it out over a cluster;
// by which network is for the caller.
package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spore/builder/customize"
	"spore/builder/manifest"
	"spore/builder/media"
	"spore/builder/pipeline"
	"spore/builder/progress"
	"spore/builder/updateset"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/storage/pieces"
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
	// Valid is how long nodes may take it by themselves; 0 is for ever.
	Valid time.Duration
	// Progress tells a person what goes on. May be nil.
	Progress *progress.Printer
}

// Update is a signed update with all that it is made of, which is read from the image when somebody asks for it. Close
// ends that.
type Update struct {
	Head update.Head
	// Signed is the head as it is sent.
	Signed []byte
	// Manifest is what the root says of itself.
	Manifest *manifest.Manifest
	// Objects are those of manifests/ by their names, with a hash of each (facts.Sums).
	Objects map[string]string
	// Notes are what the user should know, in plain words.
	Notes []string
	set   *updateset.Set
	// stored has the objects of one that was written before, which has no set.
	stored store
}

// Make makes one.
func Make(o Options) (_ *Update, err error) {
	if !strings.EqualFold(o.Tree.Cluster, o.Config.Cluster.ID) {
		return nil, fmt.Errorf("the keys are of the cluster with the id %s, and the configuration has %s",
			o.Tree.Cluster, o.Config.Cluster.ID)
	}
	if len(o.Config.Public.SigningKeys) == 0 {
		return nil, errors.New("nodes accept an update only with the cluster's keys: name their folder with --pki")
	}
	image, err := find(o.Image)
	if err != nil {
		return nil, err
	}
	change, err := customize.Plan(customize.Options{
		Image: image, Config: o.Config, Folder: o.Folder, Keys: o.Keys, TrustUnsigned: o.TrustUnsigned, Progress: o.Progress,
	})
	if err != nil {
		return nil, err
	}
	defer change.Close()
	u := &Update{Notes: change.Notes, Manifest: change.Content().Manifest, Objects: facts.Sums(cluster.ManifestFacts(o.Config))}
	step := o.Progress.Step("pieces")
	if err := u.make(o, change.Content()); err != nil {
		return nil, fmt.Errorf("%s: %w", image, err)
	}
	step.Note("%d of the root, %d of UKI, cluster part and boot loader", len(u.set.RootPieces), len(u.set.BootPieces))
	step.Done()
	return u, nil
}

// make finds out what the update is made of, and signs that.
func (u *Update) make(o Options, c customize.Content) (err error) {
	u.set, err = updateset.Of(updateset.Parts{Root: c.Root, Tree: c.Tree, UKI: c.UKI, ClusterFile: c.ClusterFile, Loader: c.Loader})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			u.Close()
		}
	}()
	if !u.set.Listed {
		u.Notes = append(u.Notes, "the image was built without an index of pieces: a node may be sent far more than what changed; "+
			"build it anew with this version")
	}
	h := update.Head{
		Force: o.Force, Nodes: nodes(o.Config), RootHash: c.RootHash, ClusterHash: c.ClusterHash,
		Root: u.set.Root, Boot: u.set.Boot, UKI: u.set.UKI, Part: u.set.Part, Loader: u.set.Loader,
	}
	if o.Valid > 0 {
		h.Until = o.Now.Add(o.Valid)
	}
	h.Root.BuildTime = c.Manifest.BuildTime
	var text bytes.Buffer
	if err := c.Manifest.Encode(&text); err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	if h.Root.Versions, err = o.Config.List().DataVersions(&text); err != nil {
		return err
	}
	u.Signed, u.Head, err = o.Tree.SignUpdate(h, o.Now)
	return err
}

func nodes(c *cluster.Config) []string {
	var out []string
	for _, n := range c.Cluster.Nodes {
		out = append(out, n.Name)
	}
	slices.Sort(out)
	return out
}

// find is the image that an output folder has: any of its media has the same root.
func find(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", fmt.Errorf("%w; name the image that the nodes are to run with --image", err)
	}
	if _, err := os.Stat(filepath.Join(name, media.NetbootRoot)); err == nil || !info.IsDir() {
		return name, nil
	}
	for _, member := range []string{pipeline.DiskName, pipeline.ISOName, pipeline.NetbootName} {
		if _, err := os.Stat(filepath.Join(name, member)); err == nil {
			return filepath.Join(name, member), nil
		}
	}
	return "", fmt.Errorf("%s has no image; with --image name the image that the nodes are to run", name)
}

// Object returns an object of the update by its hash: an index or a piece.
func (u *Update) Object(_ context.Context, sum pieces.Sum) ([]byte, error) {
	if u.stored != nil {
		return u.stored.Object(sum)
	}
	return u.set.Object(sum)
}

// isIndex tells whether a hash, in hexadecimal, is that of an index.
func (u *Update) isIndex(text string) bool {
	return text == u.Head.Root.Index.SHA256 || text == u.Head.Boot.SHA256
}

// Close closes what it is read from.
func (u *Update) Close() error {
	if u.stored != nil {
		return u.stored.Close()
	}
	return u.set.Close()
}
