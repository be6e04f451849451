package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"spore/builder/apt"
	"spore/builder/store"
)

// suite is the release of Debian of both images, and of the tools tree.
const suite = "trixie"

// toolPackages are the packages of the tools tree: mkosi and what it runs for an image such as ours.
var toolPackages = []string{
	"mkosi", "apt", "ca-certificates", "cpio", "cryptsetup-bin", "debian-archive-keyring", "dosfstools", "e2fsprogs", "kmod", "mtools",
	"python3-pefile", "squashfs-tools", "systemd", "systemd-boot", "systemd-boot-efi", "systemd-repart", "systemd-ukify", "uidmap", "zstd",
}

// mkosi builds with Debian's mkosi, in a tools tree of the suite: the host's own release may be older.
type mkosi struct {
	b *bench
	// tree is the tools tree, dir the folder with configuration, packages, caches and images.
	tree, dir string
	// packages are those of our image's list.
	packages []string
	version  string
}

// mirrors are the archives of the suite, as the builder takes them from the machine's own apt settings.
func mirrors(ctx context.Context, b *bench) ([]apt.SuiteInfo, error) {
	st, err := store.Open(filepath.Join(b.work, "mirrors"))
	if err != nil {
		return nil, err
	}
	a, err := apt.New(apt.Options{
		Root: os.DirFS("/"), Store: st, Suite: suite, Now: time.Now, MaxIndexAge: 12 * time.Hour, Transport: http.DefaultTransport.(*http.Transport).Clone(),
	})
	if err != nil {
		return nil, err
	}
	if err := a.Update(ctx); err != nil {
		return nil, err
	}
	return a.Suites(), nil
}

// newMkosi makes the tools tree where there is none yet, and fills the caches of packages and of mkosi.
func newMkosi(ctx context.Context, b *bench, packages []string) (*mkosi, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the tools tree needs root, for mounts; as another user run with SKIP=mkosi")
	}
	m := &mkosi{b: b, tree: filepath.Join(b.work, "tools"), dir: filepath.Join(b.work, "mkosi"), packages: packages}
	list, err := mirrors(ctx, b)
	if err != nil {
		return nil, err
	}
	if err := m.makeTree(ctx, list); err != nil {
		return nil, err
	}
	if err := m.configure(list); err != nil {
		return nil, err
	}
	version, err := m.command(ctx, "mkosi", "--version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("mkosi --version: %w: %s", err, version)
	}
	m.version = strings.TrimSpace(string(version))
	if err := m.prime(ctx, list); err != nil {
		return nil, err
	}
	b.say("%s: build once, which fills its cache", m.version)
	return m, m.rebuild(ctx)
}

// prime has mkosi download the indexes of the archives and all packages, by a build with the package that will be added. It does
// so again when the archives or the packages have changed.
func (m *mkosi) prime(ctx context.Context, list []apt.SuiteInfo) error {
	if err := m.editPackages(true); err != nil {
		return err
	}
	marker, want := filepath.Join(m.dir, "primed"), mkosiConf(m.packages, true)
	for _, s := range list {
		want += s.Suite + " " + s.SHA256 + "\n"
	}
	if have, err := os.ReadFile(marker); err != nil || string(have) != want {
		m.b.say("%s: download the packages, and build once", m.version)
		if err := os.RemoveAll(filepath.Join(m.dir, "cache")); err != nil {
			return err
		}
		if _, err := m.build(ctx, append(slices.Clone(withoutCache), "--cache-only=auto")...); err != nil {
			return err
		}
		if err := os.WriteFile(marker, []byte(want), 0o644); err != nil {
			return err
		}
	}
	return m.editPackages(false)
}

// makeTree makes the tools tree with mmdebstrap, whole or not at all.
func (m *mkosi) makeTree(ctx context.Context, list []apt.SuiteInfo) error {
	want := strings.Join(toolPackages, ",")
	if have, err := os.ReadFile(m.tree + ".packages"); err == nil && string(have) == want {
		return nil
	}
	i := slices.IndexFunc(list, func(s apt.SuiteInfo) bool { return s.Suite == suite })
	if i < 0 {
		return fmt.Errorf("the machine's apt sources lead to no %s", suite)
	}
	m.b.say("mkosi: make a tools tree of %s from %s", suite, list[i].URI)
	if err := errors.Join(os.RemoveAll(m.tree), os.MkdirAll(filepath.Dir(m.tree), 0o755)); err != nil {
		return err
	}
	_, err := Run(ctx, m.b.log, nil, "", "mmdebstrap", "--variant=apt", `--aptopt=Apt::Install-Recommends "false"`,
		"--keyring="+archiveKeyring, "--include="+want, suite, m.tree, list[i].URI)
	if err != nil {
		return fmt.Errorf("make the tools tree (run make deps if mmdebstrap is missing): %w", err)
	}
	return os.WriteFile(m.tree+".packages", []byte(want), 0o644)
}

const archiveKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// mkosiFiles are the configuration of an image like ours: the same suite and packages, a squashfs with zstd at the same level
// as the root, its dm-verity hash tree, a unified kernel image and systemd-boot. What an image has at its start is on a tmpfs,
// as with ours on a machine without a disk for state.
var mkosiFiles = map[string]string{
	"mkosi.repart/00-esp.conf": `[Partition]
Type=esp
Format=vfat
CopyFiles=/boot:/
CopyFiles=/efi:/
SizeMinBytes=512M
SizeMaxBytes=512M
`,
	"mkosi.repart/10-root.conf": `[Partition]
Type=root
Format=squashfs
Compression=zstd
CompressionLevel=3
CopyFiles=/
Verity=data
VerityMatchKey=root
Minimize=best
`,
	"mkosi.repart/11-root-verity.conf": `[Partition]
Type=root-verity
Verity=hash
VerityMatchKey=root
Minimize=best
`,
	// The files that the rows change, as ours change cluster.yaml and a file of overlay/.
	"mkosi.extra/etc/cluster.yaml": "round 0\n",
	"mkosi.extra/etc/bench":        "round 0\n",
}

func (m *mkosi) configure(list []apt.SuiteInfo) error {
	for name, text := range mkosiFiles {
		if err := m.write(name, text); err != nil {
			return err
		}
	}
	var sources strings.Builder
	for _, s := range list {
		fmt.Fprintf(&sources, "Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n\n", s.URI, s.Suite, archiveKeyring)
	}
	// Where this file is, mkosi writes none of its own.
	if err := m.write("mkosi.sandbox/etc/apt/sources.list.d/mkosi.sources", sources.String()); err != nil {
		return err
	}
	// The workspace is beside the output, so that the finished image is renamed and not copied.
	for _, d := range []string{"packages", "workspace"} {
		if err := os.MkdirAll(filepath.Join(m.dir, d), 0o755); err != nil {
			return err
		}
	}
	// Without a lease it waits two minutes; ours has no such wait.
	wait := filepath.Join(m.dir, "mkosi.extra/etc/systemd/system/systemd-networkd-wait-online.service")
	if err := os.MkdirAll(filepath.Dir(wait), 0o755); err != nil {
		return err
	}
	if err := os.Symlink("/dev/null", wait); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// editPackages writes mkosi.conf, with the added package or without.
func (m *mkosi) editPackages(added bool) error {
	return m.write("mkosi.conf", mkosiConf(m.packages, added))
}

func mkosiConf(packages []string, added bool) string {
	list := slices.Clone(packages)
	list = append(list, "systemd-boot")
	if added {
		list = append(list, addedPackage)
	}
	return `[Distribution]
Distribution=debian
Release=` + suite + `

[Output]
Format=disk
ImageId=bench
Output=image
OutputDirectory=out
SectorSize=512

[Content]
Packages=
    ` + strings.Join(list, "\n    ") + `
WithDocs=no
Bootable=yes
Bootloader=systemd-boot
BiosBootloader=none
UnifiedKernelImages=yes
KernelModulesInitrdInclude=default
KernelCommandLine=console=ttyS0,115200 loglevel=6 systemd.volatile=state systemd.firstboot=off

[Build]
PackageCacheDirectory=packages
CacheDirectory=cache
WorkspaceDirectory=workspace
BuildSources=
CacheOnly=always
WithNetwork=no
`
}

func (m *mkosi) write(name, text string) error {
	path := filepath.Join(m.dir, name)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

// command is a command in the tools tree.
func (m *mkosi) command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, m.b.self, insideArgs(m.tree, m.dir, argv...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// build builds the image anew; without --force mkosi does nothing where there is an image, whatever has changed.
func (m *mkosi) build(ctx context.Context, args ...string) (Usage, error) {
	return run(ctx, m.command(ctx, append([]string{"mkosi", "--force"}, args...)...), m.b.log, nil, "", false)
}

// withoutCache builds with nothing kept from before and nothing for later. In a folder of its own, as mkosi empties that of its
// caches when it is not in incremental mode.
var withoutCache = []string{"--incremental=no", "--cache-directory=no-cache"}

// cold builds with the packages cached and nothing else, and without keeping anything for the next time.
func (m *mkosi) cold(ctx context.Context, _ int) (Usage, error) { return m.build(ctx, withoutCache...) }

// warm builds in mkosi's incremental mode after an edit: the installed packages are taken from the last time.
func (m *mkosi) warm(edit func(round int) error) func(context.Context, int) (Usage, error) {
	return func(ctx context.Context, round int) (Usage, error) {
		if err := edit(round); err != nil {
			return Usage{}, err
		}
		return m.build(ctx, "--incremental=yes")
	}
}

// added builds with one more package. That makes mkosi's cache invalid, which it empties first; so this begins with an empty one
// of its own, and leaves that of the other rows as it is.
func (m *mkosi) added(ctx context.Context, _ int) (Usage, error) {
	const cache = "added-cache"
	if err := errors.Join(os.RemoveAll(filepath.Join(m.dir, cache)), m.editPackages(true)); err != nil {
		return Usage{}, err
	}
	u, err := m.build(ctx, "--incremental=yes", "--cache-directory="+cache)
	return u, errors.Join(err, m.editPackages(false))
}

// rebuild makes the image of the plain configuration again.
func (m *mkosi) rebuild(ctx context.Context) error {
	_, err := m.build(ctx, "--incremental=yes")
	return err
}

// editFile changes one file of mkosi.extra.
func (m *mkosi) editFile(name string) func(round int) error {
	return func(round int) error { return m.write("mkosi.extra/etc/"+name, m.b.edit(round)+"\n") }
}

func (m *mkosi) image() string { return filepath.Join(m.dir, "out", "image.raw") }
