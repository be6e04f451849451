package pipeline

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"spore/builder/media"
	"spore/builder/payload"
	"spore/builder/stamp"
	"spore/builder/store"
)

// inputsKey hashes all that the output files depend on.
func (b *build) inputsKey() (string, error) {
	image, err := json.Marshal(b.Config.Image)
	if err != nil {
		return "", err
	}
	public, err := json.Marshal(b.Config.Public)
	if err != nil {
		return "", err
	}
	keys, err := keysID(b.Keys)
	if err != nil {
		return "", err
	}
	in := []string{b.Out, b.root.key.String(), b.binaries.stage1.Key.String(), strings.Join(b.Formats, ","), strconv.FormatInt(b.BuildTime, 10), strconv.FormatInt(b.epoch, 10), strconv.FormatBool(b.FullProvenance), string(image), string(public), keys}
	configuration, err := b.configuration()
	if err != nil {
		return "", err
	}
	for _, r := range configuration {
		in = append(in, r.Name, r.Digest)
	}
	// What the provenance says of sources goes further than the programs made of them.
	for _, p := range slices.Concat(b.binaries.payloads, b.binaries.contained, []payload.Program{b.binaries.agent, b.binaries.stage1}) {
		in = append(in, p.Sources.Payload, p.Sources.Hash)
	}
	// What media have besides the root is taken from the archive.
	for _, s := range b.Archive.Suites() {
		in = append(in, s.Suite, s.SHA256)
	}
	for _, name := range slices.Sorted(maps.Keys(b.packages.media)) {
		in = append(in, name, b.packages.media[name].SHA256)
	}
	files := b.Config.Source()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		in = append(in, name, string(files[name]))
	}
	return store.KeyOf("build", in...).String(), nil
}

// keysID tells apart what keys sign. It has no secret.
func keysID(k media.Keys) (string, error) {
	var id []string
	if k.Boot != nil {
		id = append(id, "boot", string(k.Boot.Certificate.Raw), string(x509.MarshalPKCS1PublicKey(&k.Boot.Key.PublicKey)))
	}
	if k.PCR != nil {
		key, err := k.PCR.PublicKey()
		if err != nil {
			return "", err
		}
		id = append(id, "pcr", string(key))
	}
	if k.Enroll != nil {
		id = append(id, "enroll", k.Enroll.Mode)
		for _, name := range slices.Sorted(maps.Keys(k.Enroll.Keys)) {
			id = append(id, name, string(k.Enroll.Keys[name]))
		}
	}
	return store.KeyOf("keys", id...).String(), nil
}

// unchanged returns the result of the build that made the output folder, when that had the same inputs and its files are as
// it left them; else nil.
func (b *build) unchanged(inputs string) (*Result, error) {
	text, ok, err := stamp.Made(b.Store, b.Out, inputs)
	if err != nil || !ok {
		return nil, err
	}
	r := &Result{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, nil
	}
	r.RootCached, r.Unchanged = true, true
	step := b.Progress.Step("unchanged")
	step.Note("%s is as the last build left it, and its inputs are the same", b.Out)
	step.Done()
	return r, nil
}

// files are those that a result names, with what is in the folders among them: any text of it that is a path in the output
// folder, so that no output is forgotten here.
func (r *Result) files(out string) ([]string, error) {
	var files []string
	v := reflect.ValueOf(*r)
	for i := range v.NumField() {
		name, ok := v.Field(i).Interface().(string)
		if rel, err := filepath.Rel(out, name); !ok || err != nil || !filepath.IsLocal(rel) || name == "" || rel == "." {
			continue // a hash
		}
		err := filepath.WalkDir(name, func(p string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && p == name {
				return nil // a hash, where the folder is the current one
			}
			if err == nil && !d.IsDir() {
				files = append(files, p)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// remember records what the output folder was made of.
func (b *build) remember(inputs string, r *Result) error {
	files, err := r.files(b.Out)
	if err != nil {
		return err
	}
	return stamp.Remember(b.Store, b.Out, inputs, r, files)
}
