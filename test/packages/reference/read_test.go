package reference

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"io"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nopCloser is a buffer that can be closed.
type nopCloser struct{ *bytes.Buffer }

func (nopCloser) Close() error { return nil }

const (
	passwd = "root:x:0:0:root:/root:/bin/bash\nredis:x:101:102::/var/lib/redis:/usr/sbin/nologin\n"
	group  = "root:x:0:\nredis:x:102:\n"
	status = "Package: redis-server\nStatus: install ok installed\nVersion: 5:8.0\n\n" +
		"Package: cron\nStatus: install ok installed\nVersion: 3.0\n"
)

// entry is one member of an archive; of a file with data the size is filled in.
type entry struct {
	tar.Header
	data string
}

func file(name, data string) entry {
	return entry{tar.Header{Name: "." + name, Typeflag: tar.TypeReg, Mode: 0o644, ModTime: time.Unix(1_000_000, 0)}, data}
}

func link(name, target string, at int64) entry {
	return entry{tar.Header{Name: "." + name, Typeflag: tar.TypeSymlink, Mode: 0o777, Linkname: target,
		ModTime: time.Unix(at, 0)}, ""}
}

func folder(name string, at int64) entry {
	return entry{tar.Header{Name: "." + name + "/", Typeflag: tar.TypeDir, Mode: 0o750, Uid: 101, Gid: 102,
		ModTime: time.Unix(at, 0)}, ""}
}

// root makes an archive of the entries, accounts and dpkg's status before them.
func archiveOf(t *testing.T, entries ...entry) io.Reader {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range append([]entry{file("/etc/passwd", passwd), file("/etc/group", group), file("/var/lib/dpkg/status",
		status)}, entries...) {
		if e.Typeflag == tar.TypeReg {
			e.Size = int64(len(e.data))
		}
		require.NoError(t, w.WriteHeader(&e.Header))
		_, err := io.WriteString(w, e.data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return &out
}

func rootOf(t *testing.T, log string, entries ...entry) *Root {
	t.Helper()
	a, err := ReadArchive(archiveOf(t, entries...), nil)
	require.NoError(t, err)
	r, err := a.Root(log)
	require.NoError(t, err)
	return r
}

func TestARootHasNamesHashesAndCapabilities(t *testing.T) {
	ping := file("/usr/bin/ping", "elf")
	ping.PAXRecords = map[string]string{capability: "cap"}
	again := entry{tar.Header{Name: "./usr/bin/ping4", Typeflag: tar.TypeLink, Linkname: "./usr/bin/ping"}, ""}
	stranger := folder("/srv", 5)
	stranger.Uid = 4711
	r := rootOf(t, "", folder("/var/lib/redis", 7), ping, again, link("/usr/bin/ping6", "ping", 9), stranger)

	require.Equal(t, map[string]string{"redis-server": "5:8.0", "cron": "3.0"}, r.Versions)
	require.Equal(t, File{Type: tar.TypeDir, Mode: 0o750, User: "redis", Group: "redis", MTime: 7},
		r.Files["/var/lib/redis"])
	require.Equal(t, File{Type: tar.TypeReg, Mode: 0o644, User: "root", Group: "root", Size: 3, MTime: 1_000_000,
		Sum:        sha256.Sum256([]byte("elf")),
		Capability: "cap"}, r.Files["/usr/bin/ping"])
	require.Equal(t, r.Files["/usr/bin/ping"], r.Files["/usr/bin/ping4"])
	require.Equal(t, "ping", r.Files["/usr/bin/ping6"].Target)
	require.Equal(t, "4711", r.Files["/srv"].User)
}

func TestDataThatIsWantedIsKept(t *testing.T) {
	kept := map[string]*bytes.Buffer{}
	_, err := ReadArchive(archiveOf(t, file("/var/cache/apt/archives/a.deb", "deb")), func(name string) (io.WriteCloser,
		error) {
		if filepath.Ext(name) != ".deb" {
			return nil, nil
		}
		kept[name] = &bytes.Buffer{}
		return nopCloser{kept[name]}, nil
	})
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.Equal(t, "deb", kept["/var/cache/apt/archives/a.deb"].String())
}

func TestWhatIsKeptInAFileIsTheSame(t *testing.T) {
	r := rootOf(t, "", folder("/var/lib/redis", 7), file(infoDir+"/cron.list", "/.\n/var/lib/redis\n"))
	require.Equal(t, "cron", r.Files["/var/lib/redis"].Package)
	name := filepath.Join(t.TempDir(), "a", "root.gz")
	_, err := Load(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, r.Save(name))
	again, err := Load(name)
	require.NoError(t, err)
	require.Equal(t, r.Versions, again.Versions)
	require.Equal(t, r.Files, again.Files)
}

func TestArchivesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		in      io.Reader
		message string
	}{
		"text":            {bytes.NewReader(bytes.Repeat([]byte("x"), 1024)), "invalid tar header"},
		"one that is cut": {io.LimitReader(archiveOf(t, file("/a", "data")), 520), "unexpected EOF"},
		"a link to a file after it": {archiveOf(t, entry{tar.Header{Name: "./b", Typeflag: tar.TypeLink, Linkname: "./c"},
			""}), "did not come before"},
		"a script that is too large": {archiveOf(t, file(infoDir+"/x.postinst", string(make([]byte, maxKept+1)))),
			"more than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadArchive(c.in, nil)
			require.ErrorContains(t, err, c.message)
		})
	}
	for name, c := range map[string]struct{ file, text, message string }{
		"a package that is not configured": {"/var/lib/dpkg/status",
			"Package: a\nStatus: install ok half-configured\nVersion: 1\n",
			`package a is in the state "install ok half-configured"`},
		"no packages":               {"/var/lib/dpkg/status", "", "lists no package"},
		"accounts without numbers":  {"/etc/passwd", "root\n", `"root" has no number`},
		"groups with other numbers": {"/etc/group", "root:x:zero:\n", "invalid syntax"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := ReadArchive(archiveOf(t, file(c.file, c.text)), nil)
			require.NoError(t, err)
			_, err = a.Root("")
			require.ErrorContains(t, err, c.message)
		})
	}
}
