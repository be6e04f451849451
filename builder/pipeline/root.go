package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"spore/builder/accounts"
	"spore/builder/bootorder"
	"spore/builder/initrd"
	"spore/builder/manifest"
	"spore/builder/needs"
	"spore/builder/origins"
	"spore/builder/packs"
	"spore/builder/payload"
	"spore/builder/progress"
	"spore/builder/recipe"
	"spore/builder/source"
	"spore/builder/squashfs"
	"spore/builder/store"
	"spore/builder/tree"
	"spore/cluster/spec"
	"spore/services"
	"spore/storage/verity"
)

// Names of the objects that make up a root in the store.
const (
	objMeta      = "meta"
	objFiles     = "files"
	objSquashfs  = "squashfs"
	objVerity    = "verity"
	objKernel    = "kernel"
	objStub      = "stub"
	objLoader    = "loader"
	objMicrocode = "microcode"
	objRelease   = "os-release"
)

// Where the packages have what goes to the ESP.
const (
	stubPath   = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub"
	loaderPath = "/usr/lib/systemd/boot/efi/systemd-bootx64.efi"
)

// root is a finished root filesystem in the store, with what boots it.
type root struct {
	// Hash is the root hash of the verity tree in hexadecimal.
	Hash string `json:"hash"`
	// Manifest is that of the root without its files: they are an object of their own, which nobody but writeManifest
	// reads.
	Manifest manifest.Manifest `json:"manifest"`
	// Boot are the SHA-256 sums of what boots it, in hexadecimal, by the names of the objects: most roots have the same.
	Boot map[string]string `json:"boot"`
	// IDs are what accounts.yaml is to hold, NewIDs what it did not hold.
	IDs    *accounts.Locked `json:"ids"`
	NewIDs *accounts.Locked `json:"newIds"`

	key    store.Key
	cached bool
}

// object is the store's key of one part of the root.
func (r *root) object(name string) store.Key {
	if sum, ok := r.Boot[name]; ok {
		return store.KeyOf("boot file", sum)
	}
	return store.KeyOf("root "+name, r.key.String())
}

// ensureRoot takes the root from the store, or composes it when anything that it depends on is new.
func (b *build) ensureRoot(ctx context.Context) error {
	step := b.Progress.Step("root")
	stored, err := b.loadRoot()
	if err != nil {
		return err
	}
	if !stored {
		return b.composeRoot(ctx)
	}
	step.Note("from the cache, hash %.16s…", b.root.Hash)
	step.Done()
	return nil
}

// loadRoot reports whether the store has all of the root, which it removes object by object, and takes its description.
func (b *build) loadRoot() (stored bool, err error) {
	description := b.root.object(objMeta)
	data, err := b.Store.ReadAll(description)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r := root{key: b.root.key, cached: true}
	if err := json.Unmarshal(data, &r); err != nil {
		return false, b.Store.Damaged(description, fmt.Errorf("read the cached root: %w", err))
	}
	for _, name := range []string{objFiles, objSquashfs, objVerity, objKernel, objStub, objLoader, objMicrocode, objRelease} {
		if !b.Store.Has(r.object(name)) {
			return false, nil
		}
	}
	b.root = r
	return true, nil
}

// rootKey hashes everything that the root depends on.
func (b *build) rootKey() (store.Key, error) {
	in := []string{b.Tool, strconv.FormatInt(b.BuildTime, 10), b.Version, b.Config.Image.Suite, squashfs.PackOptions{}.Format(), b.binaries.agent.Key.String()}
	for _, p := range b.binaries.payloads {
		in = append(in, p.Name, p.Key.String(), p.Target, strconv.FormatUint(uint64(p.Mode), 8), strings.Join(p.Links, " "))
		if p.Configured != "" { // what the manifest says of it beside
			in = append(in, p.Configured, p.MadeOf, p.Version, p.License)
		}
	}
	for _, p := range b.programs {
		in = append(in, p.Name)
	}
	for _, i := range b.images {
		in = append(in, i.File, i.key.String())
	}
	for _, p := range b.packages.list {
		in = append(in, p.Name, p.Version, p.SHA256)
	}
	// Of two configurations that lead to the same packages, each root says what its own asked for.
	in = append(in, strings.Join(b.packages.requested, " "))
	// What image.yaml names keeps more of its files and starts its units, also where a role names it, too.
	in = append(in, "named", strings.Join(slices.Sorted(slices.Values(b.Config.Image.Packages)), " "))
	in = append(in, "keep", strings.Join(b.kept().Classes, " "), strings.Join(b.kept().Paths, " "), strings.Join(argumentModules(b.Config.Image.KernelArguments), " "))
	decided, err := json.Marshal([]any{b.decisions(), b.Config.Image.Debconf})
	if err != nil {
		return store.Key{}, err
	}
	in = append(in, "scripts and debconf", string(decided), "shell", strings.Join(b.shellKeys(), " "))
	ids, err := b.lockedIDs()
	if err != nil {
		return store.Key{}, err
	}
	in = append(in, "accounts", ids)
	in = append(in, b.ownKey()...)
	in = append(in, b.rolesKey()...)
	for _, files := range []fs.FS{source.Units(b.Source), source.Overlay(b.Source)} {
		list, err := sourceFiles(files)
		if err != nil {
			return store.Key{}, err
		}
		for _, f := range list {
			in = append(in, f.path, f.mode.String(), f.data)
		}
	}
	return store.KeyOf("root", in...), nil
}

// composeRoot makes the root and puts it into the store, its description last.
func (b *build) composeRoot(ctx context.Context) error {
	opened, err := b.openPacks(ctx)
	if err != nil {
		return err
	}
	defer closePacks(opened)

	step := b.Progress.Step("compose")
	hardware, err := b.chooseHardware(ctx, opened)
	if err != nil {
		return err
	}
	m, err := b.describe(opened)
	if err != nil {
		return err
	}
	programs, err := b.packPrograms()
	if err != nil {
		return err
	}
	defer closeContents(programs)
	images, err := b.packImages()
	if err != nil {
		return err
	}
	defer closeImages(images)
	composed, err := b.compose(opened, programs, images, hardware, m)
	if err != nil {
		return err
	}
	step.Note("%d files", len(composed.Tree.Paths()))
	step.Done()
	for _, n := range composed.Report.Notes() {
		b.Progress.Printf("note: %s: %s", n.Path, n.Why)
	}

	if err := b.linkRoot(composed.Tree); err != nil {
		return err
	}
	if err := b.keepBootFiles(composed); err != nil {
		return err
	}
	if err := account(&m, opened, composed); err != nil {
		return fmt.Errorf("account for the root: %w", err)
	}
	files, err := manifest.ListFiles(manifest.Files(composed.Tree))
	if err != nil {
		return fmt.Errorf("list the files of the root: %w", err)
	}
	if err := b.keep(objFiles, tree.Bytes(files)); err != nil {
		return err
	}
	b.root.Manifest = m
	b.root.IDs, b.root.NewIDs = composed.Accounts.All(), composed.Accounts.Fresh()
	return b.Store.Put(b.root.object(objMeta), func(w *os.File) error { return json.NewEncoder(w).Encode(b.root) })
}

// packTree lays out one package alone, below a merged /usr.
func packTree(p *packs.Pack) (*tree.Tree, error) {
	t := tree.New()
	if err := t.Mkdir("/usr/lib", 0o755); err != nil {
		return nil, err
	}
	if err := t.Symlink("usr/lib", "/lib", ""); err != nil {
		return nil, err
	}
	return t, p.Entries(t.Add)
}

func (b *build) compose(opened []*packs.Pack, programs map[string]*packs.Content, images []*packs.Content, hardware *hardware, m manifest.Manifest) (*recipe.Result, error) {
	var short bytes.Buffer
	if err := m.WithoutFiles().Encode(&short); err != nil {
		return nil, err
	}
	var packages []recipe.Package
	for _, p := range opened {
		packages = append(packages, p.Package)
	}
	laid, err := b.recipeImages(images)
	if err != nil {
		return nil, err
	}
	interpreters, err := b.interpreters(opened)
	if err != nil {
		return nil, err
	}
	composed, err := recipe.Compose(packages, recipe.Options{
		Began:         b.showScripts(len(packages)),
		Interpreters:  interpreters,
		Kernel:        b.packages.release,
		ModuleIndexes: hardware.Indexes,
		Hardware:      hardware.Omitted,
		Keep:          b.kept(),
		Scripts:       b.decisions(),
		Debconf:       b.Config.Image.Debconf,
		Locked:        b.Accounts,
		Named:         b.Config.Image.Packages,
		Units:         source.Units(b.Source),
		ShellKeys:     b.shellKeys(),
		Overlay:       source.Overlay(b.Source),
		Files:         b.Config.Overlay.Entries,
		OwnUnits:      b.Config.Units,
		RoleUnits:     b.Config.RoleUnits(),
		Roles:         b.roleFiles(),
		Starts:        b.roleStarts(),
		Agent:         programs[b.binaries.agent.Name].Content,
		Payloads: append(append(b.recipePayloads(programs), laid...), recipe.Payload{Name: "manifest", Files: []recipe.PayloadFile{
			{Path: manifest.ImagePath, Mode: 0o644, Content: tree.Bytes(short.Bytes())},
		}}),
		Services: b.Config.List(),
		Programs: m.Programs,
		Release:  recipe.Release{Version: b.Version, Suite: b.Config.Image.Suite},
	})
	if err != nil {
		return nil, fmt.Errorf("compose the root: %w", err)
	}
	if err := origins.Lay(composed.Tree, leftOut(composed.Report)); err != nil {
		return nil, err
	}
	// What no package dates gets the build time; nothing is newer than it, so that clocks and make never see the future.
	return composed, composed.Tree.Walk(func(_ string, n *tree.Inode) error {
		if n.MTime == 0 || n.MTime > b.BuildTime {
			n.MTime = b.BuildTime
		}
		return nil
	})
}

// showScripts makes a line of the replay of maintainer scripts, which is a step of the recipe: it should stay a small
// one.
func (b *build) showScripts(packages int) func(step string) {
	var scripts *progress.Step
	return func(step string) {
		switch {
		case step == "scripts":
			scripts = b.Progress.Step(step)
		case scripts != nil:
			scripts.Note("of %d packages replayed", packages)
			scripts.Done()
			scripts = nil
		}
	}
}

// shellKeys are those whose grants open an emergency shell; none where the image has no shell.
func (b *build) shellKeys() []string {
	if b.Config.Image.Shell != spec.ShellGranted {
		return nil
	}
	return b.Config.Image.ShellKeys
}

// describe lists packages and payloads.
func (b *build) describe(opened []*packs.Pack) (manifest.Manifest, error) {
	m := manifest.Manifest{
		Format: 1, BuildTime: b.BuildTime, Version: b.Version, Suite: b.Config.Image.Suite, Kernel: b.packages.release,
		ConfigFormat: services.Format(), Programs: []string{}, Requested: b.packages.requested,
		Keep: b.kept().Classes, KeepPaths: b.kept().Paths, Scripts: b.decisions(), Debconf: b.Config.Image.Debconf,
		ShellKeys: b.shellKeys(), Own: needs.OwnFiles(b.Config),
	}
	for _, p := range b.programs {
		m.Programs = append(m.Programs, p.Name)
	}
	for i, p := range b.packages.list {
		m.Packages = append(m.Packages, manifest.Package{Name: p.Name, Version: p.Version, Arch: p.Arch, Source: opened[i].Source, SHA256: p.SHA256, Size: p.Size})
	}
	formats := services.Ours().Formats()
	for _, p := range append(b.binaries.payloads, b.binaries.agent) {
		described, err := b.described(p)
		if err != nil {
			return m, err
		}
		if p.Configured == "" {
			described.Format = formats[p.Name]
		}
		m.Payloads = append(m.Payloads, described)
	}
	m.Images = b.describeImages()
	return m, nil
}

// described is describePayload, which reads the whole file, once for each of its builds.
func (b *build) described(p payload.Program) (manifest.Payload, error) {
	artifact := ""
	if p.Artifact != nil {
		artifact = p.Artifact.String()
	}
	in := []string{p.Key.String(), p.Name, p.Version, p.Target, strconv.FormatBool(p.Compiled), artifact}
	described, err := memo(b, "described payload", in, func() (manifest.Payload, error) { return describePayload(p) })
	if err != nil {
		return described, err
	}
	described.Configured, described.MadeOf, described.License = p.Configured, p.MadeOf, p.License
	if p.Module != nil {
		described.Main = &manifest.Module{Path: p.Module.Path, Version: p.Module.Version, Sum: p.Module.Sum}
	}
	return described, nil
}

// describePayload says what a file of a payload is made of. The largest programs have more than a hundred megabytes and
// are never whole in memory.
func describePayload(p payload.Program) (manifest.Payload, error) {
	f, err := os.Open(p.Path)
	if err != nil {
		return manifest.Payload{}, fmt.Errorf("read program %s: %w", p.Name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return manifest.Payload{}, fmt.Errorf("read program %s: %w", p.Name, err)
	}
	if p.Compiled {
		return manifest.GoPayload(p.Name, p.Version, p.Target, f, info.Size())
	}
	described, err := manifest.FilePayload(p.Name, p.Version, p.Target, f, info.Size())
	if err != nil {
		return described, err
	}
	if a := p.Artifact; a != nil {
		described.Artifact = &manifest.Artifact{Group: a.Group, Name: a.Name, Version: a.Version, Classifier: a.Classifier}
		if described.Bundled, err = bundled(p, f, info.Size()); err != nil {
			return described, err
		}
	}
	return described, nil
}

// linkRoot writes squashfs and hash tree into the store, and the index of the pieces of the squashfs behind the tree.
// The data is hashed as it is written.
func (b *build) linkRoot(t *tree.Tree) error {
	step := b.Progress.Step("link")
	image, err := squashfs.Prepare(t, squashfs.Options{BuildTime: uint32(b.BuildTime), First: bootorder.Sort(t.Paths())})
	if err != nil {
		return fmt.Errorf("link the root: %w", err)
	}
	hasher, err := verity.NewHasher(image.Size, verity.Derive(image.ContentID[:]))
	if err != nil {
		return fmt.Errorf("hash the root: %w", err)
	}
	err = b.Store.PutLarge(b.root.object(objSquashfs), image.Size, func(w io.WriterAt) error { return image.Write(hashedFirst{hasher, w}) })
	if err != nil {
		return fmt.Errorf("link the root: %w", err)
	}
	step.Note("%.1f MiB, %.1f of it fresh", float64(image.Size)/(1<<20), float64(image.Fresh)/(1<<20))
	step.Done()

	step = b.Progress.Step("verity")
	index, err := image.Pieces.EncodeBlocks()
	if err != nil {
		return fmt.Errorf("list the pieces of the root: %w", err)
	}
	err = b.Store.Put(b.root.object(objVerity), func(w *os.File) error {
		hash, _, err := hasher.Finish(w)
		if err != nil {
			return err
		}
		b.root.Hash = fmt.Sprintf("%x", hash)
		_, err = w.Write(index)
		return err
	})
	if err != nil {
		return fmt.Errorf("hash the root: %w", err)
	}
	step.Note("root hash %.16s…, %d pieces", b.root.Hash, len(image.Pieces))
	step.Done()
	return nil
}

// hashedFirst writes what it has hashed.
type hashedFirst struct {
	hasher *verity.Hasher
	w      io.WriterAt
}

// WriteAt implements io.WriterAt.
func (h hashedFirst) WriteAt(b []byte, off int64) (int, error) {
	if n, err := h.hasher.WriteAt(b, off); err != nil {
		return n, err
	}
	return h.w.WriteAt(b, off)
}

// keepBootFiles puts kernel, stub, boot loader and microcode beside the root.
func (b *build) keepBootFiles(composed *recipe.Result) error {
	b.root.Boot = map[string]string{}
	wanted := map[string]string{objKernel: "/boot/vmlinuz-" + b.packages.release, objStub: stubPath, objLoader: loaderPath}
	for name, p := range wanted {
		n := composed.Boot[p]
		if n == nil {
			return fmt.Errorf("no package contains %s", p)
		}
		if err := b.keepBootFile(name, n.Content); err != nil {
			return err
		}
	}
	release, err := composed.Tree.ReadFile("/etc/os-release")
	if err != nil {
		return err
	}
	if err := b.keepBootFile(objRelease, tree.Bytes(release)); err != nil {
		return err
	}
	if !b.Config.Image.Microcode {
		return b.keepBootFile(objMicrocode, tree.Bytes(nil))
	}
	firmware := tree.New()
	for p, n := range composed.Boot {
		if err := firmware.Add(p, n); err != nil {
			return err
		}
	}
	archive, err := initrd.Microcode(firmware)
	if err != nil {
		return err
	}
	return b.keepBootFile(objMicrocode, tree.Bytes(archive))
}

// keepBootFile puts a file into the store unless it is there.
func (b *build) keepBootFile(name string, c tree.Content) error {
	sum, err := tree.SHA256(c)
	if err != nil {
		return fmt.Errorf("hash the %s: %w", name, err)
	}
	b.root.Boot[name] = fmt.Sprintf("%x", sum)
	if b.Store.Has(b.root.object(name)) {
		return nil
	}
	return b.keep(name, c)
}

func (b *build) keep(name string, c tree.Content) error {
	return b.Store.Put(b.root.object(name), func(w *os.File) error {
		r, err := c.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(w, r)
		return err
	})
}
