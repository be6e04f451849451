// Package pipeline builds an image from a configuration folder: it is the order in which the other packages of the
// builder work, and what is kept between builds.
//
//	config ─ packages ─ programs ─ root ─ cluster part ─ UKI ─ disk
//
// Everything up to the root is a function of the package list, the programs and our own files, and is kept in the
// store; a build in which only the configuration changed starts at the cluster part.
package pipeline

import (
	"context"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"

	"spore/builder/accounts"
	"spore/builder/lock"
	"spore/builder/manifest"
	"spore/builder/media"
	"spore/builder/needs"
	"spore/builder/oci"
	"spore/builder/outfolder"
	"spore/builder/progress"
	"spore/builder/provenance"
	"spore/builder/stamp"
	"spore/builder/store"
	"spore/cluster"
	"spore/cluster/spec"
	"spore/services/service"
)

// Names of the files in the output folder.
const (
	DiskName     = "spore.img"
	ISOName      = "spore.iso"
	UKIName      = "spore.efi"
	ManifestName = "spore.manifest.json"
	SBOMName     = "spore.cdx.json"
	SPDXName     = "spore.spdx.json"
	// ProvenanceName is the in-toto statement of what the image was made of.
	ProvenanceName = "spore.provenance.json"
)

// Names are all names that Build gives to what it writes into the output folder.
func Names() []string {
	return []string{
		DiskName, ISOName, UKIName, ManifestName, SBOMName, SPDXName, ProvenanceName, NetbootName, UpdateName, lock.Name,
		accounts.LockedFile,
	}
}

// Options say what to build, from what, and where.
type Options struct {
	// Config is a loaded configuration without errors.
	Config *cluster.Config
	// Source is the source tree with units/, overlay/, payloads/ and the Go code of the agent.
	Source string
	// Out is the folder for the image; it is made where needed.
	Out string
	// Formats are the outputs, of spec.Formats.
	Formats []string
	// Store is the cache.
	Store *store.Store
	// Archive gives packages.
	Archive Archive
	// Folder is the configuration folder, which has the archives of container images that it names.
	Folder fs.FS
	// Registry gives container images; one without a transport only those that the store has.
	Registry oci.Registry
	// Transport fetches what programs of the user's own are made of; nil takes only what the store has.
	Transport http.RoundTripper
	// Keys sign what machines start; none is fine.
	Keys media.Keys
	// Locked, where not nil, is what the build is held to: it fails where it would take anything else. The Archive has to
	// be one that gives the packages of the lock (see Pins).
	Locked *lock.Lock
	// Accounts are the ids of accounts.yaml. May be nil.
	Accounts *accounts.Locked
	// BuildTime in seconds since the epoch is written wherever a time is needed; 0 takes that of Locked, else the date of
	// the package archive.
	BuildTime int64
	// FullProvenance has the provenance name every medium by the SHA-256 of the whole file.
	FullProvenance bool
	// Version is the version of the image, for os-release.
	Version string
	// Tool is a hash of the program that builds. What another program built is not taken from the store.
	Tool string
	// Hashes remembers the hashes of source files. May be nil.
	Hashes *stamp.Hashes
	// Env is the environment in which the go command finds its caches.
	Env []string
	// Progress tells a person what goes on. May be nil.
	Progress *progress.Printer
}

// Result says what was built.
type Result struct {
	Disk       string `json:"disk,omitempty"`
	ISO        string `json:"iso,omitempty"`
	Netboot    string `json:"netboot,omitempty"`
	UKI        string `json:"uki,omitempty"`
	Update     string `json:"update,omitempty"`
	Manifest   string `json:"manifest"`
	SBOM       string `json:"sbom"`
	SPDX       string `json:"spdx"`
	Provenance string `json:"provenance"`
	Lock       string `json:"lock"`
	// Accounts is the file with the ids that the program does not know of; empty where the image has none.
	Accounts string `json:"accounts,omitempty"`
	// NewIDs are those of them that accounts.yaml does not have.
	NewIDs      *accounts.Locked `json:"newIds,omitempty"`
	RootHash    string           `json:"rootHash"`
	ClusterHash string           `json:"clusterHash"`
	BuildTime   int64            `json:"buildTime"`
	// RootCached is true when the root came from the store.
	RootCached bool `json:"rootCached"`
	// Unchanged is true when the output folder had all of it already, made of the same inputs.
	Unchanged bool `json:"unchanged,omitempty"`
}

// Build builds an image.
func Build(ctx context.Context, o Options) (*Result, error) {
	b := &build{Options: o, programs: needs.Programs(o.Config), epoch: o.BuildTime}
	unlock, locked, err := outfolder.Take(ctx, o.Out, Names(), func() {
		b.Progress.Printf("another build writes to %s: waiting for it", o.Out)
	})
	if err != nil {
		return nil, err
	}
	defer unlock()

	if err := b.resolvePackages(ctx); err != nil {
		return nil, err
	}
	if err := b.checkLock(ctx); err != nil {
		return nil, err
	}
	if err := b.compilePrograms(ctx); err != nil {
		return nil, err
	}
	if err := b.collectImages(ctx); err != nil {
		return nil, err
	}
	if b.root.key, err = b.rootKey(); err != nil {
		return nil, err
	}
	inputs, err := b.inputsKey()
	if err != nil {
		return nil, err
	}
	r, err := b.unchanged(inputs)
	if err != nil {
		return nil, err
	}
	if r != nil {
		if err := b.tellNew(r.NewIDs); err != nil {
			return nil, err
		}
		return r, nil
	}
	if err := b.ensureRoot(ctx); err != nil {
		return nil, err
	}
	if err := b.tellNew(b.root.NewIDs); err != nil {
		return nil, err
	}
	if err := b.makeMedia(ctx); err != nil {
		return nil, err
	}
	defer b.media.Close()
	if err := b.writeUKI(); err != nil {
		return nil, err
	}
	if err := b.writeDisk(ctx); err != nil {
		return nil, err
	}
	if err := b.writeISO(ctx); err != nil {
		return nil, err
	}
	if err := b.writeNetboot(ctx); err != nil {
		return nil, err
	}
	if err := b.writeUpdate(ctx); err != nil {
		return nil, err
	}
	if err := b.writeManifest(); err != nil {
		return nil, err
	}
	r = b.result()
	if locked {
		err = b.remember(inputs, r)
	}
	return r, err
}

// build is what the steps hand on.
type build struct {
	Options
	// programs are what the enabled services need.
	programs []service.Program
	packages packageSet
	binaries binaries
	images   []containerImage
	root     root
	media    *media.Media
	// epoch is the build time that was asked for, or 0.
	epoch   int64
	disk    string
	iso     string
	netboot string
	update  string
	// updateIndexes are the two files by which all others of the folder of an update are named.
	updateIndexes []provenance.Resource
	// mediaPackages are those that media have files of, beside the root.
	mediaPackages []manifest.Package
}

func (b *build) result() *Result {
	r := &Result{
		Manifest: filepath.Join(b.Out, ManifestName), SBOM: filepath.Join(b.Out, SBOMName), Lock: filepath.Join(b.Out, lock.Name),
		SPDX: filepath.Join(b.Out, SPDXName), Provenance: filepath.Join(b.Out, ProvenanceName),
		RootHash: b.root.Hash, ClusterHash: b.media.ClusterHash, BuildTime: b.BuildTime, RootCached: b.root.cached,
		Disk: b.disk, ISO: b.iso, Netboot: b.netboot, Update: b.update,
	}
	if !b.root.IDs.Empty() {
		r.Accounts = filepath.Join(b.Out, accounts.LockedFile)
	}
	if !b.root.NewIDs.Empty() {
		r.NewIDs = b.root.NewIDs
	}
	if b.wants(spec.FormatUKI) {
		r.UKI = filepath.Join(b.Out, UKIName)
	}
	return r
}

func (b *build) wants(format string) bool {
	return slices.Contains(b.Formats, format)
}
