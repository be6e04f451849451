// Package customize puts another configuration on an image that was built before: it makes the cluster part and the
// unified kernel image anew and takes the root from the image itself, by the code that `spore build` writes images
// with. It needs no packages, no network and no cache. What the root does not carry is refused before anything is
// written.
//
// An image is replaced whole: the new one is written beside it, flushed to the disk, and renamed over it, so that
// whoever interrupts this at any point has the old image or the new one.
package customize

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"

	"spore/builder/image"
	"spore/builder/media"
	"spore/builder/needs"
	"spore/builder/progress"
	"spore/builder/secureboot"
	"spore/cluster"
	"spore/cluster/check"
	"spore/cluster/spec"
	"spore/pki/authenticode"
	"spore/pki/siglist"
)

// Options say what to do with which image.
type Options struct {
	// Image is a disk image, an ISO or a folder for network boot that `spore build` wrote.
	Image string
	// Output is where the new image goes; empty is in place.
	Output string
	// Config is a loaded configuration without errors, Folder the folder that it was read from.
	Config *cluster.Config
	Folder fs.FS
	// Keys sign the image. One that is signed is refused without them.
	Keys media.Keys
	// TrustUnsigned lets Keys sign an image that their certificate has not signed before. Otherwise it is refused: the new
	// signature would be on a kernel, an initramfs and a root of whoever made the image.
	TrustUnsigned bool
	// NewCluster lets the new configuration have another cluster id.
	NewCluster bool
	// Progress tells a person what goes on. May be nil.
	Progress *progress.Printer
}

// Change is a new configuration for an image, with all that is to be written. Close removes what is temporary.
type Change struct {
	// Notes are what the user should know, in plain words.
	Notes []string

	options  Options
	original *original
	media    *media.Media
	temp     string
}

// Refused is the error for an image that cannot take a configuration, with each entry that stands against it.
type Refused struct{ Report check.Report }

// Error implements error.
func (r *Refused) Error() string {
	return "the image cannot take this configuration; nothing was changed. Build an image with `spore build`"
}

// Plan reads the image, compares it with the configuration and makes what is to be written. It writes nothing to the
// image.
func Plan(o Options) (_ *Change, err error) {
	c := &Change{options: o}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	step := o.Progress.Step("read")
	if c.original, err = open(o.Image, o.Output == ""); err != nil {
		return nil, err
	}
	step.Note("root hash %.16s…", c.original.root.Hash)
	step.Done()
	if err := errors.Join(c.check(), c.checkKeys()); err != nil {
		return nil, err
	}
	if c.temp, err = os.MkdirTemp("", "spore-customize-*"); err != nil {
		return nil, err
	}
	c.media, err = media.Make(media.Options{Root: c.original.root, Config: o.Config, Keys: c.keys(), Temp: c.temp, Progress: o.Progress})
	return c, err
}

// Close closes the image and removes what is temporary.
func (c *Change) Close() {
	if c.media != nil {
		c.media.Close()
	}
	if c.temp != "" {
		os.RemoveAll(c.temp)
	}
	if c.original != nil {
		c.original.Close()
	}
}

// check refuses what the image cannot become.
func (c *Change) check() error {
	o, old := c.options, c.original
	var report check.Report
	if id := old.cluster.ID; !strings.EqualFold(id, o.Config.Cluster.ID) && !o.NewCluster {
		p := o.Config.At("cluster.yaml", "id")
		p.Message = fmt.Sprintf("the id is %s, and the image is of the cluster %s with the id %s, whose machines would refuse their own state; say --new-cluster if that is meant", o.Config.Cluster.ID, old.cluster.Name, id)
		report = append(report, p)
	}
	missing, err := needs.Missing(o.Config, old.manifest, o.Folder)
	if err != nil {
		return err
	}
	report = append(report, missing...)
	if report = append(report, c.changedRoles()...); len(report) > 0 {
		return &Refused{report}
	}
	if list := needs.Unneeded(o.Config, old.manifest); len(list) > 0 {
		c.note("the image carries %s, which this configuration does not need; no node starts it, and spore build would leave it out", strings.Join(list, ", "))
	}
	if len(old.cluster.SigningKeys) > 0 && len(o.Config.Public.SigningKeys) == 0 {
		c.note("the image had the public half of the cluster's keys, and now has none: no machine will take a bundle of secrets. Name the folder of keys with --pki")
	}
	return nil
}

// checkKeys refuses to leave an image without the signatures that machines ask it for.
func (c *Change) checkKeys() error {
	o, keys := c.original, c.options.Keys
	switch {
	case o.signed && keys.Boot == nil:
		return errors.New("the image is signed for Secure Boot, and its UKI must be signed again: name the key with --secure-boot-key and --secure-boot-cert")
	case o.predicted && keys.PCR == nil:
		return errors.New("the image has a signature for the TPM's PCR 11, which must be made again: name the key with --pcr-key")
	case o.enroll != nil && keys.Enroll == nil:
		if err := trusts(o.enroll, keys.Boot); err != nil {
			return err
		}
	}
	if keys.Boot == nil || c.options.TrustUnsigned {
		return nil
	}
	return o.checkSigner(keys.Boot.Certificate)
}

// checkSigner refuses an image with a program that will be signed and that a certificate has not signed before. What
// the UKI names by its hashes is covered by its signature: dm-verity checks the root against them wherever it is used.
func (o *original) checkSigner(c *x509.Certificate) error {
	for _, p := range o.programs() {
		if err := authenticode.CheckSigner(p.pe, c); err != nil {
			return fmt.Errorf("%s of %s is not signed by the certificate that is given, %q (SHA-256 %.16s…): %w. Its kernel and root would be "+
				"signed as they are; give the certificate of the image, build the image with it (spore build --secure-boot-key), or say --trust-unsigned "+
				"if you know that nobody else could write to the image since it was built; nothing was changed",
				p.what, o.path, c.Subject.String(), authenticode.Fingerprint(c), err)
		}
	}
	return nil
}

// trusts refuses a key by whose signatures a machine would not start once it has taken the keys of the medium.
func trusts(e *image.Enrolment, s *secureboot.Signer) error {
	entries, err := secureboot.WrittenCertificates(e.Keys["db"])
	if err != nil {
		return fmt.Errorf("read the keys that the image enrols: %w", err)
	}
	if s == nil || !slices.ContainsFunc(entries, func(e siglist.Entry) bool { return e.Certificate.Equal(s.Certificate) }) {
		return errors.New("the image enrols keys, and a machine that enrols them would refuse the new image: sign with the key of the image, or name other keys with --enroll")
	}
	return nil
}

// keys are those of the options, with the enrolment that the image has.
func (c *Change) keys() media.Keys {
	k := c.options.Keys
	if k.Enroll == nil {
		k.Enroll = c.original.enroll
	}
	return k
}

func (c *Change) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// Result says what was written.
type Result struct {
	Image  string `json:"image"`
	Format string `json:"format"`
	// Changed is false when the image had this configuration already; in place, nothing was written then.
	Changed        bool   `json:"changed"`
	RootHash       string `json:"rootHash"`
	OldClusterHash string `json:"oldClusterHash"`
	ClusterHash    string `json:"clusterHash"`
}

// Write replaces the image, or writes the new one to its own place.
func (c *Change) Write(ctx context.Context) (*Result, error) {
	r := &Result{
		Image: c.options.Output, Format: c.original.format, Changed: true,
		RootHash: c.original.root.Hash, OldClusterHash: c.original.clusterHash, ClusterHash: c.media.ClusterHash,
	}
	if r.Image == "" {
		r.Image = c.options.Image
	}
	step := c.options.Progress.Step(r.Format)
	if err := c.write(ctx, r); err != nil {
		return nil, fmt.Errorf("customize %s: %w", c.options.Image, err)
	}
	step.Note("%s", r.Image)
	step.Done()
	return r, nil
}

func (c *Change) write(ctx context.Context, r *Result) error {
	writeTo := func(name string) error { return c.original.write(ctx, c.media, name) }
	if c.options.Output != "" {
		return replace(r.Image, nil, writeTo)
	}
	if c.same() {
		r.Changed = false
		return nil
	}
	return replace(c.original.path, c.original.file, writeTo)
}

// same tells whether the image is as it would be written: the UKI names root and cluster part.
func (c *Change) same() bool {
	o := c.original
	if o.format == spec.FormatDisk && !o.info.HasSlots(image.Slots(c.options.Config.Image.Slots)) {
		return false
	}
	if o.format != spec.FormatNetboot && !(bytes.Equal(c.media.Loader, o.loader) && reflect.DeepEqual(c.media.Enroll, o.enroll)) {
		return false
	}
	return bytes.Equal(c.media.UKI, o.uki)
}
