package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"spore/builder/apt"
	"spore/builder/lock"
	"spore/builder/needs"
	"spore/builder/payload"
	"spore/builder/source"
	"spore/builder/store"
	"spore/services/kubernetes"
)

// LockMismatch is the error for a lock that is not that of the configuration, the source and the program that builds.
type LockMismatch struct{ Changes []lock.Change }

// Error names every difference.
func (e *LockMismatch) Error() string {
	var lines strings.Builder
	for _, c := range e.Changes {
		lines.WriteString("\n  " + c.String())
	}
	return fmt.Sprintf("%s does not match; this build would have (+), not have (-) or change (~):%s\nrun spore lock --update to lock the present state, or restore the locked one", lock.Name, lines.String())
}

// Plan says what Build would make an image of now, and with which ids of accounts. Packages are chosen and programs are
// hashed; nothing is compiled. Packages are downloaded whose scripts were never replayed.
func Plan(ctx context.Context, o Options) (*lock.Lock, *IDs, error) {
	b := &build{Options: o, programs: needs.Programs(o.Config)}
	if err := b.resolvePackages(ctx); err != nil {
		return nil, nil, err
	}
	l, err := b.plan(ctx)
	if err != nil {
		return nil, nil, err
	}
	ids, err := b.planIDs(ctx)
	return l, ids, err
}

// Pins are the packages of a lock, for an archive that is to give these.
func Pins(l *lock.Lock) apt.Pins {
	packages := func(list []lock.Package) []apt.Package {
		out := make([]apt.Package, 0, len(list))
		for _, p := range list {
			out = append(out, apt.Package{
				Name: p.Name, Version: p.Version, Arch: p.Arch, Source: p.Source, Suite: p.Suite, Component: p.Component,
				Filename: p.Path, Size: p.Size, SHA256: p.SHA256,
			})
		}
		return out
	}
	pins := apt.Pins{Closure: packages(l.Packages), Alone: packages(l.Media)}
	for _, i := range l.Indexes {
		s := apt.SuiteInfo{Suite: i.Suite, Date: i.Date, SHA256: i.SHA256}
		for _, f := range i.Lists {
			s.Indexes = append(s.Indexes, apt.IndexInfo{Path: f.Name, SHA256: f.SHA256})
		}
		pins.Suites = append(pins.Suites, s)
	}
	return pins
}

// checkLock compares the lock that the build is held to with what the build would take, before anything is made.
func (b *build) checkLock(ctx context.Context) error {
	if b.Locked == nil {
		return nil
	}
	planned, err := b.plan(ctx)
	if err != nil {
		return err
	}
	if changes := lock.Diff(b.Locked, planned); len(changes) > 0 {
		return &LockMismatch{changes}
	}
	return nil
}

// madeLock is the lock of what the image was made of.
func (b *build) madeLock() (*lock.Lock, error) {
	var images []lock.Image
	for _, i := range b.images {
		switch {
		case i.From == pauseFrom: // it is a program
		case kubernetes.IsImageArchive(i.From):
			images = append(images, lock.Image{Name: i.From, SHA256: i.sha256})
		default:
			images = append(images, lock.Image{Name: i.From})
		}
	}
	return b.lockOf(b.binaries, images)
}

// plan is the lock of a build that has chosen its packages.
func (b *build) plan(ctx context.Context) (*lock.Lock, error) {
	o, err := b.payloadOptions()
	if err != nil {
		return nil, err
	}
	o.Plan = true
	programs, err := b.makePrograms(ctx, o)
	if err != nil {
		return nil, err
	}
	names, some := needs.ContainerImages(b.Config)
	if !some {
		return b.lockOf(programs, nil)
	}
	pause, err := b.makePause(ctx, o)
	if err != nil {
		return nil, err
	}
	programs.contained = []payload.Program{pause}
	var images []lock.Image
	for _, name := range names {
		image := lock.Image{Name: name}
		if kubernetes.IsImageArchive(name) {
			if image.SHA256, err = b.hashConfigFile(name); err != nil {
				return nil, fmt.Errorf("container image %s: %w", name, err)
			}
		}
		images = append(images, image)
	}
	return b.lockOf(programs, images)
}

// hashConfigFile is the SHA-256 of a file of the configuration folder, in hexadecimal.
func (b *build) hashConfigFile(name string) (string, error) {
	f, err := b.Folder.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return hashOf(f)
}

// lockOf writes down packages, programs and images.
func (b *build) lockOf(programs binaries, images []lock.Image) (*lock.Lock, error) {
	components := b.Config.Image.Components
	if len(components) == 0 {
		components = []string{"main"} // as package apt takes it
	}
	l := &lock.Lock{
		Format: lock.Format, Suite: b.Config.Image.Suite, Components: slices.Clone(components),
		BuildTime: b.BuildTime, Kernel: b.packages.release, Spore: lock.Tool{Version: b.Version, SHA256: b.Tool},
		Requested: slices.Clone(b.packages.requested), Images: images,
	}
	for _, s := range b.Archive.Suites() {
		index := lock.Index{Suite: s.Suite, Date: s.Date.UTC(), SHA256: s.SHA256}
		for _, i := range s.Indexes {
			index.Lists = append(index.Lists, lock.File{Name: i.Path, SHA256: i.SHA256})
		}
		l.Indexes = append(l.Indexes, index)
	}
	for _, p := range b.packages.list {
		l.Packages = append(l.Packages, lockedPackage(p))
	}
	for _, p := range b.packages.media {
		l.Media = append(l.Media, lockedPackage(p))
	}
	for _, p := range programs.payloads {
		l.Programs = append(l.Programs, lockedProgram(p))
	}
	l.Programs = append(l.Programs, lockedProgram(programs.agent))
	for _, p := range append([]payload.Program{programs.stage1}, programs.contained...) {
		p.Target, p.Links, p.Mode = "", nil, 0 // it has no path of its own in the root
		l.Programs = append(l.Programs, lockedProgram(p))
	}
	var err error
	if l.Source, err = b.lockedSource(); err != nil {
		return nil, err
	}
	l.Sort()
	return l, nil
}

func lockedPackage(p apt.Package) lock.Package {
	return lock.Package{
		Name: p.Name, Version: p.Version, Arch: p.Arch, Source: p.Source, Suite: p.Suite, Component: p.Component,
		Path: p.Filename, Size: p.Size, SHA256: p.SHA256,
	}
}

func lockedProgram(p payload.Program) lock.Program {
	out := lock.Program{Name: p.Name, Version: p.Version, Toolchain: p.Toolchain, Path: p.Target, Links: p.Links}
	if p.Mode != 0 && p.Unpacked == "" { // the mode of an archive's file is an input, or in the archive
		out.Mode = fmt.Sprintf("%04o", p.Mode)
	}
	switch {
	case p.Compiled:
		out.Inputs = p.Key.String()
	case p.Unpacked != "":
		out.Inputs = p.Unpacked
	default:
		out.SHA256 = p.Key.String() // a file is kept under its own hash
	}
	return out
}

// sourceFile is a file that the root has from the source tree.
type sourceFile struct {
	path string
	mode fs.FileMode
	data string
}

// sourceFiles reads units or overlay.
func sourceFiles(files fs.FS) ([]sourceFile, error) {
	var out []sourceFile
	err := fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := fs.ReadFile(files, p)
		out = append(out, sourceFile{p, info.Mode(), string(data)})
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read our own files: %w", err)
	}
	return out, nil
}

// lockedSource hashes units and overlay. Of a file's mode counts what the root takes of it: its type, and whether its
// owner may execute it. All else is a matter of the umask.
func (b *build) lockedSource() ([]lock.File, error) {
	var out []lock.File
	for name, files := range map[string]fs.FS{"units": source.Units(b.Source), "overlay": source.Overlay(b.Source)} {
		list, err := sourceFiles(files)
		if err != nil {
			return nil, err
		}
		var in []string
		for _, f := range list {
			mode := (f.mode.Type() | f.mode&0o100).String()
			in = append(in, f.path, mode, f.data)
		}
		out = append(out, lock.File{Name: name, SHA256: store.KeyOf("source", in...).String()})
	}
	return out, nil
}
