package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"spore/builder/manifest"
	"spore/builder/pipeline"
	"spore/builder/store"
	"spore/builder/uki"
	"spore/builder/vm"
)

// addedPackage is the one that the package rows add. It needs one library that is in no image otherwise.
const addedPackage = "strace"

// ours builds with spore, from copies of the source tree and of a configuration that it may change, and with caches of
// its own.
type ours struct {
	b *bench
	// name tells the configurations apart; dir is theirs below the work folder, from what was copied.
	name, dir, from string
	// config and source are the copies, out is where images go, cache the warm cache: that of XDG_CACHE_HOME.
	config, source, out, cache string
	meter                      *compilerMeter
	// scripts is what the replay of maintainer scripts took of the last cold build.
	scripts time.Duration
}

// newOurs copies and builds once, which downloads and compiles what is needed.
func newOurs(ctx context.Context, b *bench, name, config string) (*ours, error) {
	dir := filepath.Join(b.work, name)
	o := &ours{
		b: b, name: name, dir: dir, from: config, config: filepath.Join(dir, "config"), source: filepath.Join(dir, "source"), out: filepath.Join(dir, "out"),
		cache: filepath.Join(dir, "cache"),
	}
	for _, d := range []string{o.config, o.source, o.out} {
		if err := os.RemoveAll(d); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(o.cache, 0o755); err != nil {
		return nil, err
	}
	if err := copyFolder(config, o.config); err != nil {
		return nil, err
	}
	if err := copySource(".", o.source); err != nil {
		return nil, err
	}
	var err error
	if o.meter, err = newCompilerMeter(dir, b.self); err != nil {
		return nil, err
	}
	if err := o.editOverlay(0); err != nil {
		return nil, err
	}
	if err := o.editPackages(false); err != nil {
		return nil, err
	}
	b.say("%s: build once, which fills the cache", name)
	if _, err := o.build(ctx, o.cache, o.out); err != nil {
		return nil, err
	}
	return o, o.download(ctx)
}

// download brings the package that is added, and what it needs, into the cache as they are downloaded, and nothing that
// is made of them.
func (o *ours) download(ctx context.Context) error {
	cache, out := filepath.Join(o.dir, "download-cache"), filepath.Join(o.dir, "download-out")
	if err := errors.Join(os.RemoveAll(cache), clone(o.cache, cache, everything), o.editPackages(true)); err != nil {
		return err
	}
	if _, err := o.build(ctx, cache, out); err != nil {
		return err
	}
	packages := func(rel, path string) (bool, error) {
		kept, err := downloaded(rel, path)
		return kept && isObject(rel), err
	}
	return errors.Join(o.editPackages(false), clone(cache, o.cache, packages), os.RemoveAll(cache), os.RemoveAll(out))
}

// build builds an image as a user does.
func (o *ours) build(ctx context.Context, cache, out string, args ...string) (Usage, error) {
	return o.buildWith(ctx, nil, cache, out, args...)
}

func (o *ours) buildWith(ctx context.Context, env []string, cache, out string, args ...string) (Usage, error) {
	// The compiler's own cache is the user's: XDG_CACHE_HOME would move it.
	goCache, err := exec.CommandContext(ctx, o.meter.command, "env", "GOCACHE").Output()
	if err != nil {
		return Usage{}, fmt.Errorf("find the cache of the go command: %w", err)
	}
	env = append(env, "XDG_CACHE_HOME="+cache, "GOCACHE="+strings.TrimSpace(string(goCache)))
	cmd := exec.CommandContext(ctx, o.b.spore, append([]string{"build", o.config, "-o", out, "--source", o.source}, args...)...)
	return run(ctx, cmd, o.b.log, env, "", true)
}

// cold builds with downloads alone in the cache, into a new folder. What the go command takes is metered, and not
// counted: the compiler is not what is compared. No other build is metered: the builder reads its Go version from the
// go command's own file, and would have to run the meter for it, twice.
func (o *ours) cold(ctx context.Context, _ int) (Usage, error) {
	cache, out := filepath.Join(o.dir, "cold-cache"), filepath.Join(o.dir, "cold-out")
	if err := errors.Join(os.RemoveAll(cache), os.RemoveAll(out)); err != nil {
		return Usage{}, err
	}
	if err := clone(o.cache, cache, downloaded); err != nil {
		return Usage{}, err
	}
	if err := o.meter.begin(); err != nil {
		return Usage{}, err
	}
	u, err := o.buildWith(ctx, o.meter.env(), cache, out)
	if err != nil {
		return u, err
	}
	if o.scripts, err = scriptsOf(u.Said); err != nil {
		return u, err
	}
	if u.Apart, err = o.meter.total(); err != nil {
		return u, err
	}
	u.CPU -= u.Apart
	return u, errors.Join(os.RemoveAll(cache), os.RemoveAll(out))
}

// scriptsOf finds the line of the replay of maintainer scripts in what a build said.
func scriptsOf(said string) (time.Duration, error) {
	for line := range strings.Lines(said) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "s" && f[2] == "scripts" {
			return time.ParseDuration(f[0] + "s")
		}
	}
	return 0, errors.New("the build has no line of the replay of scripts")
}

// replay is what the scripts took of the last cold build. One processor does this, so its time is that of the clock.
func (o *ours) replay(context.Context, int) (Usage, error) {
	return Usage{CPU: o.scripts, Wall: o.scripts}, nil
}

// warm does an edit and builds on a copy of the cache, so that each round finds what the first one found.
func (o *ours) warm(edit func(round int) error) func(context.Context, int) (Usage, error) {
	return func(ctx context.Context, round int) (Usage, error) {
		cache := filepath.Join(o.dir, "warm-cache")
		if err := os.RemoveAll(cache); err != nil {
			return Usage{}, err
		}
		if err := clone(o.cache, cache, everything); err != nil {
			return Usage{}, err
		}
		if err := edit(round); err != nil {
			return Usage{}, err
		}
		u, err := o.build(ctx, cache, o.out)
		return u, errors.Join(err, os.RemoveAll(cache))
	}
}

// unchanged builds twice, on the cache itself, and measures the second time. What an earlier measurement has edited is
// in the first.
func (o *ours) unchanged(ctx context.Context, _ int) (Usage, error) {
	if _, err := o.build(ctx, o.cache, o.out); err != nil {
		return Usage{}, err
	}
	return o.build(ctx, o.cache, o.out)
}

// added adds the package, builds, and takes it away again.
func (o *ours) added(ctx context.Context, round int) (Usage, error) {
	u, err := o.warm(func(int) error { return o.editPackages(true) })(ctx, round)
	if err != nil {
		return u, err
	}
	if err := o.editPackages(false); err != nil {
		return u, err
	}
	// The output is to be that of the configuration again.
	_, err = o.build(ctx, o.cache, o.out)
	return u, err
}

var nameserversLine = regexp.MustCompile(`(?m)^  nameservers: .*$`)

// editCluster changes an address in cluster.yaml.
func (o *ours) editCluster(round int) error {
	path := filepath.Join(o.config, "cluster.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed := nameserversLine.ReplaceAll(text, fmt.Appendf(nil, "  nameservers: [10.77.0.%d] # %s", 200+round%50, o.b.edit(round)))
	if string(changed) == string(text) {
		return fmt.Errorf("%s has no line of nameservers to change", path)
	}
	return os.WriteFile(path, changed, 0o644)
}

// editOverlay changes a file that is laid into the image as it is, to what no earlier run has left a root of in the
// cache.
func (o *ours) editOverlay(round int) error {
	path := filepath.Join(o.source, "overlay", "etc", "bench")
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(o.b.edit(round)+"\n"), 0o644))
}

var packagesKey = regexp.MustCompile(`(?m)^packages:.*\n(?:[ \t]+.*\n)*`)

// editPackages adds the package to image.yaml, or takes it away.
func (o *ours) editPackages(added bool) error {
	path := filepath.Join(o.config, "image.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// What the configuration has of its own is left out with it: it is not what is measured.
	text = append([]byte(strings.TrimRight(string(packagesKey.ReplaceAll(text, nil)), "\n")), '\n')
	if added {
		text = fmt.Appendf(text, "packages: [%s]\n", addedPackage)
	}
	return os.WriteFile(path, text, 0o644)
}

// image is the image of the last build, manifest what it says of itself.
func (o *ours) image() string { return filepath.Join(o.out, pipeline.DiskName) }

func (o *ours) manifest() (manifest.Manifest, error) {
	var m manifest.Manifest
	text, err := os.ReadFile(filepath.Join(o.out, pipeline.ManifestName))
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(text, &m)
}

// floorWork names what the floor works on: the downloads of the last build, and the programs, which are taken out of
// its image.
func (o *ours) floorWork(ctx context.Context) (string, error) {
	m, err := o.manifest()
	if err != nil {
		return "", err
	}
	st, err := store.Open(filepath.Join(o.cache, "spore"))
	if err != nil {
		return "", err
	}
	w := FloorWork{Manifest: filepath.Join(o.dir, "floor-"+pipeline.ManifestName), Temp: o.dir}
	if err := copyFile(filepath.Join(o.out, pipeline.ManifestName), w.Manifest); err != nil {
		return "", err
	}
	for _, p := range m.Packages {
		key, err := store.ParseKey(p.SHA256)
		if err != nil {
			return "", err
		}
		w.Debs = append(w.Debs, st.Path(key))
	}
	root, err := vm.FindPartition(o.image(), "root-a")
	if err != nil {
		return "", err
	}
	for _, p := range m.Payloads {
		path := filepath.Join(o.dir, "program-"+p.Name)
		if err := unsquash(ctx, o.image(), root.Start, p.Path, path); err != nil {
			return "", err
		}
		w.Programs = append(w.Programs, path)
	}
	if w.Initramfs, err = o.plainInitramfs(ctx); err != nil {
		return "", err
	}
	text, err := json.Marshal(w)
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.dir, "floor.json")
	return path, os.WriteFile(path, text, 0o644)
}

// plainInitramfs writes the initramfs of the image, decompressed, to a file.
func (o *ours) plainInitramfs(ctx context.Context) (string, error) {
	out := filepath.Join(o.dir, "uki-out")
	defer os.RemoveAll(out)
	if _, err := o.build(ctx, o.cache, out, "--format", "uki"); err != nil {
		return "", err
	}
	image, err := os.ReadFile(filepath.Join(out, pipeline.UKIName))
	if err != nil {
		return "", err
	}
	parts, err := uki.Split(image)
	if err != nil {
		return "", err
	}
	initrd, err := uki.Read(parts.Initrd)
	if err != nil {
		return "", err
	}
	plain, err := decompressed(initrd)
	if err != nil {
		return "", fmt.Errorf("decompress the initramfs: %w", err)
	}
	path := filepath.Join(o.dir, "initramfs")
	return path, os.WriteFile(path, plain, 0o644)
}

// decompressed are the zstd frames of an initramfs, which ends with up to three zeros.
func decompressed(initramfs []byte) ([]byte, error) {
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for {
		plain, err := d.DecodeAll(initramfs, nil)
		if err == nil || !bytes.HasSuffix(initramfs, []byte{0}) {
			return plain, err
		}
		initramfs = initramfs[:len(initramfs)-1]
	}
}

// unsquash writes a file of a squashfs in an image to path.
func unsquash(ctx context.Context, image string, offset int64, name, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := exec.CommandContext(ctx, "unsquashfs", "-o", fmt.Sprint(offset), "-cat", image, strings.TrimPrefix(name, "/"))
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = f, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("take %s out of %s: %w: %s; run make deps if unsquashfs is missing", name, image, err, said.String())
	}
	return f.Close()
}

// everything and downloaded choose files of a cache.
func everything(string, string) (bool, error) { return true, nil }

// downloaded is what came from outside: an object whose name is the hash of its content (package store), and all that
// is no object, which is what was last seen of the mirrors. Everything else was made, and its name is the hash of what
// it was made of.
func downloaded(rel, path string) (bool, error) {
	parts := strings.Split(filepath.ToSlash(rel), "/")
	if len(parts) < 3 || parts[len(parts)-3] != "objects" {
		return !strings.Contains(rel, "/tmp/"), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false, err
	}
	return hex.EncodeToString(h.Sum(nil)) == parts[len(parts)-2]+parts[len(parts)-1], nil
}

// clone makes a copy of a folder with the files that keep accepts. Files of objects, which nobody writes to, are
// further names of the same; all others are copied.
func clone(from, to string, keep func(rel, path string) (bool, error)) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(at, 0o755)
		}
		if kept, err := keep(rel, path); err != nil || !kept {
			return err
		}
		if isObject(rel) {
			if err := os.Link(path, at); !errors.Is(err, fs.ErrExist) {
				return err
			}
			return nil
		}
		return copyFile(path, at)
	})
}

// isObject reports whether a file of a cache is an object.
func isObject(rel string) bool { return strings.Contains(rel, "objects"+string(filepath.Separator)) }

// notSource are folders of the project that no image is made of.
var notSource = map[string]bool{".git": true, "bin": true, "out": true, "docs": true}

// copySource copies the source tree.
func copySource(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if notSource[e.Name()] || strings.HasSuffix(e.Name(), ".pki") {
			continue
		}
		if err := copyFolder(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// copyFolder copies a folder, or a file, with modes and symbolic links.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(at, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(target, at))
		case !d.Type().IsRegular():
			return nil
		}
		return errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), copyFile(path, at))
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
