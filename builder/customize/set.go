package customize

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"spore/builder/accounts"
	"spore/builder/lock"
	"spore/builder/manifest"
	"spore/builder/media"
	"spore/builder/pipeline"
	"spore/builder/updateset"
)

// members are the media in an output folder of `spore build`, in the order in which they are changed.
var members = []string{pipeline.DiskName, pipeline.ISOName, pipeline.NetbootName}

// Set is the changes of all media in an output folder, or of one image by itself.
type Set struct {
	Changes []*Change

	// dir is the output folder, or empty.
	dir     string
	options Options
}

// PlanAll is Plan for an image, or for all that are in an output folder of `spore build`; Output is a folder then.
func PlanAll(o Options) (_ *Set, err error) {
	s := &Set{options: o}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	found, err := s.find()
	if err != nil {
		return nil, err
	}
	for _, name := range found {
		one := o
		if one.Image = name; s.dir != "" && o.Output != "" {
			one.Output = filepath.Join(o.Output, filepath.Base(name))
		}
		c, err := Plan(one)
		if err != nil {
			return nil, err
		}
		s.Changes = append(s.Changes, c)
		if first := s.Changes[0]; first.original.root.Hash != c.original.root.Hash {
			return nil, fmt.Errorf("%s and %s have different roots, so they are of different builds; customize each by itself", first.options.Image, name)
		}
	}
	s.noteProvenance()
	return s, nil
}

// find lists the images.
func (s *Set) find() ([]string, error) {
	info, err := os.Stat(s.options.Image)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(s.options.Image, media.NetbootRoot)); err == nil || !info.IsDir() {
		return []string{s.options.Image}, nil
	}
	s.dir = s.options.Image
	var found []string
	for _, name := range members {
		name = filepath.Join(s.dir, name)
		if _, err := os.Stat(name); err == nil {
			found = append(found, name)
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%s has no image: it is neither a folder for network boot nor one with %s", s.dir, strings.Join(members, ", "))
	}
	return found, nil
}

// Close closes all images.
func (s *Set) Close() {
	for _, c := range s.Changes {
		c.Close()
	}
}

// Write writes all images, each whole or not at all, and what else is in the folder: the UKI alone, the bills of
// materials, which have the cluster's name, and what nodes are updated from. A provenance, which tells of the image
// before, is removed. An interrupted run is finished by the next.
func (s *Set) Write(ctx context.Context) ([]*Result, error) {
	if s.dir != "" && s.options.Output != "" {
		if err := os.MkdirAll(s.options.Output, 0o755); err != nil {
			return nil, fmt.Errorf("make the output folder: %w", err)
		}
	}
	if err := s.removeProvenance(); err != nil {
		return nil, err
	}
	var out []*Result
	for _, c := range s.Changes {
		r, err := c.Write(ctx)
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	if s.dir == "" {
		return out, nil
	}
	return out, errors.Join(s.writeRest(), s.writeUpdate(ctx))
}

// writeRest brings the other files of the folder up to date. Manifest, lock and ids of accounts tell of the root alone,
// which stays.
func (s *Set) writeRest() error {
	if _, err := os.Stat(filepath.Join(s.dir, pipeline.UKIName)); err == nil {
		if err := s.update(pipeline.UKIName, s.Changes[0].media.UKI); err != nil {
			return err
		}
	}
	for _, name := range []string{lock.Name, accounts.LockedFile} {
		if locked, err := os.ReadFile(filepath.Join(s.dir, name)); err == nil {
			if err := s.update(name, locked); err != nil {
				return err
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	text, err := os.ReadFile(filepath.Join(s.dir, pipeline.ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var m manifest.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Join(s.dir, pipeline.ManifestName), err)
	}
	errs := []error{s.update(pipeline.ManifestName, text)}
	for name, write := range pipeline.Bills() {
		var bill bytes.Buffer
		if err := write(&bill, m, s.options.Config.Cluster.Name); err != nil {
			return err
		}
		errs = append(errs, s.update(name, bill.Bytes()))
	}
	return errors.Join(errs...)
}

// writeUpdate brings the folder up to date that running nodes are updated from, if there is one.
func (s *Set) writeUpdate(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(s.dir, pipeline.UpdateName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c := s.Changes[0]
	var loader []byte
	for _, other := range s.Changes { // A folder for network boot has none.
		if loader == nil {
			loader = other.media.Loader
		}
	}
	set, err := updateset.Of(updateset.Parts{
		Root: c.original.root.Squashfs, Tree: c.original.root.Verity, UKI: c.media.UKI, ClusterFile: c.media.ClusterFile,
		Loader: loader,
	})
	if err != nil {
		return err
	}
	defer set.Close()
	return set.WriteFolder(ctx, s.destination(pipeline.UpdateName))
}

// destination is where a file of the folder is written.
func (s *Set) destination(name string) string {
	if s.options.Output != "" {
		return filepath.Join(s.options.Output, name)
	}
	return filepath.Join(s.dir, name)
}

// update writes a file of the folder unless it is so already.
func (s *Set) update(name string, data []byte) error {
	dst := s.destination(name)
	if old, err := os.ReadFile(dst); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return replace(dst, nil, func(name string) error { return os.WriteFile(name, data, 0o644) })
}
