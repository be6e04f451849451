package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"

	"spore/builder/accounts"
	"spore/builder/manifest"
	"spore/builder/payload"
	"spore/builder/provenance"
	"spore/builder/sbom"
	"spore/builder/source"
	"spore/cluster/overlay"
	"spore/cluster/spec"
	"spore/storage/atomicfile"
)

// Bills are the bills of materials beside an image, by the name of their file.
func Bills() map[string]func(w io.Writer, m manifest.Manifest, name string) error {
	return map[string]func(io.Writer, manifest.Manifest, string) error{SBOMName: sbom.CycloneDX, SPDXName: sbom.SPDX}
}

// writeProvenance writes what the image was made of, last of all: it has the hashes of the other files.
func (b *build) writeProvenance(m manifest.Manifest, written []provenance.Resource) error {
	p := provenance.Build{
		Formats: b.Formats, Epoch: b.epoch, BuildTime: b.BuildTime, Version: b.Version, Tool: b.Tool,
		Subjects: append(written, b.parts()...),
	}
	var err error
	if p.Configuration, err = b.configuration(); err != nil {
		return fmt.Errorf("hash the configuration: %w", err)
	}
	if p.Signing, err = b.signing(); err != nil {
		return err
	}
	if p.Inputs, err = b.resolved(m); err != nil {
		return fmt.Errorf("list what the image is made of: %w", err)
	}
	if b.FullProvenance {
		whole, err := b.wholeMedia()
		if err != nil {
			return fmt.Errorf("hash the media: %w", err)
		}
		p.Subjects = append(p.Subjects, whole...)
	}
	return atomicfile.Fill(filepath.Join(b.Out, ProvenanceName), 0o644, atomicfile.Unsynced,
		func(f *os.File) error { return provenance.Write(f, p) })
}

// parts are what every medium of an image is made of, by the hashes by which machines trust them. They are known
// already: to hash a disk image would take longer than to make it.
func (b *build) parts() []provenance.Resource {
	uki := provenance.Resource{Name: "unified kernel image", Algorithm: provenance.SHA256, Digest: hex.EncodeToString(b.media.UKISum[:])}
	out := []provenance.Resource{
		{Name: "root", Algorithm: provenance.Verity, Digest: b.root.Hash},
		{Name: "cluster part", Algorithm: provenance.Verity, Digest: b.media.ClusterHash},
		hashed("boot loader", b.media.Loader),
		uki,
	}
	if b.wants(spec.FormatUKI) {
		uki.Name = UKIName
		out = append(out, uki)
	}
	return append(out, b.updateIndexes...)
}

func hashed(name string, data []byte) provenance.Resource {
	sum := sha256.Sum256(data)
	return provenance.Resource{Name: name, Algorithm: provenance.SHA256, Digest: hex.EncodeToString(sum[:])}
}

// wholeMedia hashes every file of the media whole.
func (b *build) wholeMedia() ([]provenance.Resource, error) {
	var out []provenance.Resource
	for _, top := range []string{b.disk, b.iso, b.netboot} {
		if top == "" {
			continue
		}
		err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			h := sha256.New()
			if _, err := io.Copy(h, f); err != nil {
				return err
			}
			rel, err := filepath.Rel(b.Out, name)
			out = append(out, provenance.Resource{Name: filepath.ToSlash(rel), Algorithm: provenance.SHA256, Digest: hex.EncodeToString(h.Sum(nil))})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// configuration are the files of the configuration folder as they were read, and the public half of the cluster's keys.
func (b *build) configuration() ([]provenance.Resource, error) {
	var out []provenance.Resource
	files := b.Config.Source()
	for _, name := range []string{"image.yaml", overlay.SettingsFile} {
		data, err := fs.ReadFile(b.Folder, name)
		switch {
		case err == nil:
			files[name] = data
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	maps.Copy(files, b.Config.ProgramFiles())
	if b.Config.Accounts != nil {
		files[accounts.LockedFile] = b.Config.Accounts
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out = append(out, hashed(name, files[name]))
	}
	out = append(out, b.ownResources()...)
	for _, name := range slices.Sorted(maps.Keys(b.Config.Public.Files)) {
		out = append(out, hashed("public keys: "+name, b.Config.Public.Files[name]))
	}
	if keys := b.Config.Public.SigningKeys; len(keys) > 0 {
		out = append(out, hashed("public keys: signing", []byte(strings.Join(keys, "\n"))))
	}
	return out, nil
}

// signing are the public halves of the keys that signed: the certificate as DER, the key for PCR 11 as PEM.
func (b *build) signing() ([]provenance.Resource, error) {
	var out []provenance.Resource
	if k := b.Keys.Boot; k != nil {
		out = append(out, hashed("Secure Boot certificate", k.Certificate.Raw))
	}
	if k := b.Keys.PCR; k != nil {
		public, err := k.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("encode the public key for PCR 11: %w", err)
		}
		out = append(out, hashed("PCR public key", public))
	}
	return out, nil
}

// resolved are all things with a hash of their own that the image was made of, and the Go toolchains, which have none
// here.
func (b *build) resolved(m manifest.Manifest) ([]provenance.Resource, error) {
	var out []provenance.Resource
	for _, s := range b.Archive.Suites() {
		out = append(out, provenance.Resource{Name: "dists/" + s.Suite + "/InRelease", Algorithm: provenance.SHA256, Digest: s.SHA256})
		for _, i := range s.Indexes {
			out = append(out, provenance.Resource{Name: "dists/" + s.Suite + "/" + i.Path, Algorithm: provenance.SHA256, Digest: i.SHA256})
		}
	}
	for _, p := range append(slices.Clone(m.Packages), m.MediaPackages...) {
		out = append(out, provenance.Resource{Name: p.Name, URI: sbom.DebianURL(m, p), Algorithm: provenance.SHA256, Digest: p.SHA256})
	}
	for _, p := range append(slices.Clone(m.Payloads), m.BootPayloads...) {
		more, err := payloadInputs(p)
		if err != nil {
			return nil, fmt.Errorf("program %s: %w", p.Name, err)
		}
		out = append(out, more...)
	}
	for _, i := range b.images {
		r := provenance.Resource{Name: i.From, Algorithm: provenance.SHA256, Digest: i.sha256}
		if r.Digest == "" {
			continue // of a payload
		}
		out = append(out, r)
	}
	out = append(out, b.configuredInputs()...)
	own, err := b.ownInputs()
	return provenance.Unique(append(out, own...)), err
}

// payloadInputs are the jar that a file is, or the modules and the toolchain of a Go program.
func payloadInputs(p manifest.Payload) ([]provenance.Resource, error) {
	var out []provenance.Resource
	if a := p.Artifact; a != nil {
		out = append(out, provenance.Resource{Name: a.Name, URI: sbom.MavenURL(*a), Algorithm: provenance.SHA256, Digest: p.SHA256})
	}
	if p.GoVersion != "" {
		out = append(out, provenance.Resource{Name: "Go toolchain " + p.GoVersion})
	}
	modules := p.Modules
	if p.Main != nil {
		modules = append([]manifest.Module{*p.Main}, modules...)
	}
	for _, mod := range modules {
		if mod.Sum == "" {
			continue // a part of the tree that the program is in
		}
		digest, err := provenance.ModuleDigest(mod.Sum)
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", mod.Path, err)
		}
		out = append(out, provenance.Resource{Name: mod.Path, URI: sbom.GolangURL(mod.Path, mod.Version), Algorithm: provenance.DirHash, Digest: digest})
	}
	return out, nil
}

// configuredInputs are the files and folders that programs of the user's own are made of.
func (b *build) configuredInputs() []provenance.Resource {
	var out []provenance.Resource
	for _, p := range b.binaries.payloads {
		for _, i := range p.Inputs {
			r := provenance.Resource{Name: "configuration: " + i.Name, Algorithm: provenance.SHA256, Digest: i.SHA256}
			if i.Folder != "" {
				r.Algorithm, r.Digest = provenance.DirHash, i.Folder
			}
			if strings.Contains(i.Name, "://") {
				r.Name, r.URI = path.Base(i.Name), i.Name
			}
			out = append(out, r)
		}
	}
	return out
}

// ownInputs are our own folders and those of payloads, each as one hash.
func (b *build) ownInputs() ([]provenance.Resource, error) {
	var out []provenance.Resource
	for name, files := range map[string]fs.FS{"units": source.Units(b.Source), "overlay": source.Overlay(b.Source)} {
		digest, err := hashFolder(files)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, provenance.Resource{Name: "source: " + name, Algorithm: provenance.DirHash, Digest: digest})
	}
	for _, p := range slices.Concat(b.binaries.payloads, b.binaries.contained, []payload.Program{b.binaries.agent, b.binaries.stage1}) {
		if p.Configured != "" {
			continue
		}
		name := "source: spore-agent"
		if p.Sources.Payload != "" {
			name = "source: " + path.Join("payloads", p.Sources.Payload)
		}
		out = append(out, provenance.Resource{Name: name, Algorithm: provenance.DirHash, Digest: p.Sources.Hash})
	}
	return out, nil
}

func hashFolder(files fs.FS) (string, error) {
	var names []string
	err := fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, p)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	sum, err := dirhash.Hash1(names, func(name string) (io.ReadCloser, error) {
		data, err := fs.ReadFile(files, name)
		return io.NopCloser(bytes.NewReader(data)), err
	})
	if err != nil {
		return "", err
	}
	return provenance.ModuleDigest(sum)
}
