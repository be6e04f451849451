package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/apt"
	"spore/builder/deb/debtest"
	"spore/builder/manifest"
	"spore/builder/sbom"
	"spore/builder/store"
)

// debArchive is a package archive of packages that tests make.
type debArchive struct {
	dir     string
	list    []apt.Package
	fetched int
	offline bool
}

func (a *debArchive) add(t *testing.T, name, version string, files ...debtest.Entry) {
	t.Helper()
	a.addDeb(t, name, version, debtest.Deb{
		Control: debtest.Control(name, version), Compress: "xz", Data: append([]debtest.Entry{{Name: "./"}}, files...),
	})
}

func (a *debArchive) addDeb(t *testing.T, name, version string, d debtest.Deb) {
	t.Helper()
	data := d.Bytes()
	sum := sha256.Sum256(data)
	p := apt.Package{Name: name, Version: version, Arch: "all", SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))}
	require.NoError(t, os.WriteFile(filepath.Join(a.dir, p.SHA256), data, 0o644))
	a.list = append(a.list, p)
}

func (a *debArchive) Update(context.Context) error { return nil }
func (a *debArchive) Date() time.Time              { return time.Time{} }
func (a *debArchive) Suites() []apt.SuiteInfo      { return nil }
func (a *debArchive) Warnings() []string           { return nil }
func (a *debArchive) Choose(_, alone []string) (closure, single []apt.Package, err error) {
	for _, p := range a.list {
		if slices.Contains(alone, p.Name) {
			single = append(single, p)
		}
	}
	return a.list, single, nil
}
func (a *debArchive) Open(p apt.Package) (*os.File, error) {
	return os.Open(filepath.Join(a.dir, p.SHA256))
}
func (a *debArchive) Fetch(_ context.Context, list []apt.Package) error {
	if a.offline {
		return errors.New("offline")
	}
	a.fetched += len(list)
	return nil
}

func (a *debArchive) FetchEach(ctx context.Context, list []apt.Package, ready func(int)) error {
	if err := a.Fetch(ctx, list); err != nil {
		return err
	}
	for i := range list {
		ready(i)
	}
	return nil
}

// syslinux is an archive with what an ISO wants.
func syslinux(t *testing.T) *debArchive {
	t.Helper()
	a := &debArchive{dir: t.TempDir()}
	a.add(t, "isolinux", "3:6.04-1", debtest.Entry{Name: "./usr/"}, debtest.Entry{Name: "./usr/lib/"}, debtest.Entry{Name: "./usr/lib/ISOLINUX/"},
		debtest.Entry{Name: "./usr/lib/ISOLINUX/isohdpfx.bin", Body: "mbr"}, debtest.Entry{Name: "./usr/lib/ISOLINUX/isolinux.bin", Body: "isolinux"})
	a.add(t, "syslinux-common", "3:6.04-1", debtest.Entry{Name: "./usr/"}, debtest.Entry{Name: "./usr/lib/"}, debtest.Entry{Name: "./usr/lib/syslinux/"},
		debtest.Entry{Name: "./usr/lib/syslinux/modules/"}, debtest.Entry{Name: "./usr/lib/syslinux/modules/bios/"},
		debtest.Entry{Name: "./usr/lib/syslinux/modules/bios/ldlinux.c32", Body: "ldlinux"})
	a.add(t, "libc6", "2.41-1")
	return a
}

func isoBuild(t *testing.T, a *debArchive) *build {
	t.Helper()
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	b := &build{Options: Options{Store: st, Archive: a}}
	b.packages.takeMedia(a.list)
	return b
}

func TestISOLinuxIsTakenFromItsPackagesOnce(t *testing.T) {
	a := syslinux(t)
	b := isoBuild(t, a)
	bios, err := b.takeBIOS(context.Background())
	require.NoError(t, err)
	require.Equal(t, "mbr isolinux ldlinux", strings.Join([]string{string(bios.MBR), string(bios.ISOLinux), string(bios.Ldlinux)}, " "))
	require.Equal(t, 3, a.fetched)
	var names []string
	for _, p := range b.mediaPackages {
		names = append(names, p.Name+" "+p.Version)
	}
	require.Equal(t, []string{"isolinux 3:6.04-1", "syslinux-common 3:6.04-1"}, names)

	t.Run("later builds need no network", func(t *testing.T) {
		a.offline = true
		later := &build{Options: b.Options, packages: b.packages}
		again, err := later.takeBIOS(context.Background())
		require.NoError(t, err)
		require.Equal(t, bios, again)
	})
}

func TestAnArchiveWithoutAFittingISOLinuxIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*debArchive)
		err    string
	}{
		"no package":           {func(a *debArchive) { a.list = a.list[1:] }, "no package isolinux"},
		"two versions":         {func(a *debArchive) { a.list[1].Version = "3:6.05-1" }, "do not start together"},
		"no such file":         {func(a *debArchive) { a.list[0].SHA256, a.list[1].SHA256 = a.list[1].SHA256, a.list[0].SHA256 }, "it has no file /usr/lib/ISOLINUX/isohdpfx.bin"},
		"nothing in the store": {func(a *debArchive) { a.offline = true }, "offline"},
	} {
		t.Run(name, func(t *testing.T) {
			a := syslinux(t)
			c.change(a)
			_, err := isoBuild(t, a).takeBIOS(context.Background())
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestAFileThatIsNoBootLoaderIsRefused(t *testing.T) {
	a := &debArchive{dir: t.TempDir()}
	a.add(t, "isolinux", "1", debtest.Entry{Name: "./big", Body: strings.Repeat("x", maxBIOSFile+1)})
	f, err := a.Open(a.list[0])
	require.NoError(t, err)
	defer f.Close()
	_, err = packageFile(f, "/big")
	require.ErrorContains(t, err, "more than")
}

func TestPackagesOfMediaAreInTheBillOfMaterialsOnce(t *testing.T) {
	m := manifest.Manifest{Packages: []manifest.Package{{Name: "isolinux", Version: "1"}}, MediaPackages: []manifest.Package{{Name: "isolinux", Version: "1"}, {Name: "syslinux-common", Version: "1"}}}
	var out strings.Builder
	require.NoError(t, sbom.CycloneDX(&out, m, "x"))
	require.Equal(t, 1, strings.Count(out.String(), `"bom-ref": "deb:isolinux"`))
	require.Equal(t, 1, strings.Count(out.String(), `"bom-ref": "deb:syslinux-common"`))
}
