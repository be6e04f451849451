//go:build integration

package apt

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/deb"
	"spore/builder/deb/version"
	"spore/builder/store"
)

// The machine's own mirror: a closure that is closed, of the newest versions, twice the same, and quick the second time.
func TestTheMachinesMirrorGivesAClosure(t *testing.T) {
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	opts := Options{
		Store: st, Root: os.DirFS("/"), Now: time.Now, MaxIndexAge: time.Hour, Omit: []string{"initramfs-tools"},
		Transport: http.DefaultTransport.(*http.Transport),
	}
	list := []string{"systemd", "udev", "mosquitto", "linux-image-amd64"}
	resolve := func() ([]Package, *Archive) {
		a, err := New(opts)
		require.NoError(t, err)
		require.NoError(t, a.Update(t.Context()))
		packages, err := a.Resolve(list)
		require.NoError(t, err)
		return packages, a
	}
	packages, a := resolve()
	require.Len(t, a.Suites(), 3)
	require.False(t, a.Date().IsZero())

	got := map[string]Package{}
	for _, p := range packages {
		got[p.Name] = p
	}
	for _, name := range append(list, "libc6", "dpkg", "libmosquitto1", "kmod") {
		require.Contains(t, got, name)
	}
	require.NotContains(t, got, "initramfs-tools")

	newest := newestVersions(t, a)
	for _, p := range packages {
		require.Equal(t, newest[p.Name], p.Version, p.Name)
	}

	start := time.Now()
	again, _ := resolve()
	took := time.Since(start)
	require.Equal(t, packages, again)
	t.Logf("%d packages; Update and Resolve from the store took %s", len(packages), took)
	require.Less(t, took, 500*time.Millisecond) // 100 ms on a machine that is not busy

	small := got["libcjson1"]
	require.NoError(t, a.Fetch(t.Context(), []Package{small}))
	f, err := a.Open(small)
	require.NoError(t, err)
	defer f.Close()
	r, err := deb.NewReader(f, deb.Options{})
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, small.Version, r.Control().Version)

	requireAptAgrees(t, a, packages)
}

// newestVersions reads the indexes again, line by line.
func newestVersions(t *testing.T, a *Archive) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, s := range a.suites {
		for _, i := range s.indexes {
			data, err := a.opts.Store.ReadAll(i.file.SHA256)
			require.NoError(t, err)
			name := ""
			sc := bufio.NewScanner(strings.NewReader(string(data)))
			sc.Buffer(nil, 1<<20)
			for sc.Scan() {
				if n, ok := strings.CutPrefix(sc.Text(), "Package: "); ok {
					name = n
				}
				if v, ok := strings.CutPrefix(sc.Text(), "Version: "); ok && (out[name] == "" || version.Compare(v, out[name]) > 0) {
					out[name] = v
				}
			}
			require.NoError(t, sc.Err())
		}
	}
	return out
}

// requireAptAgrees asks dpkg's own checker of relations: apt-get must find nothing broken and nothing missing in the
// closure when it sees no other package.
func requireAptAgrees(t *testing.T, a *Archive, packages []Package) {
	t.Helper()
	apt, err := exec.LookPath("apt-get")
	require.NoError(t, err, "run make deps")
	dir := t.TempDir()
	for _, d := range []string{"lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d", "repo"} {
		require.NoError(t, os.MkdirAll(dir+"/"+d, 0o755))
	}
	var index, status strings.Builder
	var names []string
	for _, p := range packages {
		index.WriteString(p.Paragraph + "\n\n")
		names = append(names, p.Name)
	}
	status.WriteString("Package: initramfs-tools\nStatus: install ok installed\nVersion: 0.147\nArchitecture: all\nMaintainer: x <x@example.test>\nDescription: x\n\n")
	require.NoError(t, os.WriteFile(dir+"/repo/Packages", []byte(index.String()), 0o644))
	require.NoError(t, os.WriteFile(dir+"/status", []byte(status.String()), 0o644))
	require.NoError(t, os.WriteFile(dir+"/etc/sources.list", []byte("deb [trusted=yes] copy:"+dir+"/repo ./\n"), 0o644))
	args := []string{
		"-o", "Dir::State=" + dir, "-o", "Dir::State::lists=" + dir + "/lists", "-o", "Dir::State::status=" + dir + "/status",
		"-o", "Dir::Cache=" + dir + "/cache", "-o", "Dir::Etc=" + dir + "/etc", "-o", "Dir::Etc::sourcelist=" + dir + "/etc/sources.list",
		"-o", "Dir::Etc::sourceparts=-", "-o", "APT::Architecture=amd64", "-o", "APT::Architectures=amd64", "-o", "APT::Sandbox::User=",
		"-o", "APT::Install-Recommends=false", "-o", "Debug::NoLocking=true",
	}
	run := func(more ...string) string {
		cmd := exec.Command(apt, append(args, more...)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C", "APT_CONFIG=/dev/null")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	run("update")
	out := run(append([]string{"install", "--simulate", "--yes"}, names...)...)
	require.Equal(t, len(names), strings.Count(out, "\nInst "), out)
}
