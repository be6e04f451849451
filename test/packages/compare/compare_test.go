package compare

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
	"spore/test/packages/reference"
)

// pair makes the same small root twice, as ours and as theirs. Our redis has another number.
func pair(t *testing.T) (*tree.Tree, *reference.Root) {
	t.Helper()
	passwd, group := "root:x:0:0::/:\nredis:x:900:900::/:\n", "root:x:0:\nredis:x:900:\n"
	ours := tree.New()
	for p, n := range map[string]*tree.Inode{
		"/etc":        {Type: tree.Dir, Mode: 0o755},
		"/etc/passwd": {Type: tree.Regular, Mode: 0o644, Content: tree.Bytes(passwd), Origin: "step:accounts"},
		"/etc/group":  {Type: tree.Regular, Mode: 0o644, Content: tree.Bytes(group), Origin: "step:accounts"},
		"/etc/redis.conf": {Type: tree.Regular, Mode: 0o640, UID: 900, GID: 900, MTime: 7, Content: tree.Bytes("conf"),
			Origin: "deb:redis-server_5:8.0"},
		"/etc/link": {Type: tree.Symlink, Mode: 0o777, Target: "redis.conf", Origin: "script:redis-server.postinst"},
	} {
		require.NoError(t, ours.Add(p, n))
	}
	file := func(text string) reference.File {
		return reference.File{Type: tar.TypeReg, Mode: 0o644, User: "root", Group: "root", Size: int64(len(text)),
			Sum: sha256.Sum256([]byte(text))}
	}
	conf := file("conf")
	conf.Mode, conf.User, conf.Group, conf.MTime, conf.Package = 0o640, "redis", "redis", 7, "redis-server"
	folder := reference.File{Type: tar.TypeDir, Mode: 0o755, User: "root", Group: "root"}
	return ours, &reference.Root{Files: map[string]reference.File{
		"/": folder, "/etc": folder, "/etc/passwd": file(passwd), "/etc/group": file(group), "/etc/redis.conf": conf,
		"/etc/link": {Type: tar.TypeSymlink, Mode: 0o777, User: "root", Group: "root", Target: "redis.conf",
			Package: "redis-server"},
	}}
}

func TestTreesThatAreTheSameDoNotDiffer(t *testing.T) {
	ours, theirs := pair(t)
	list, err := Trees(ours, theirs)
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestEachWayToDiffer(t *testing.T) {
	change := func(name string, fn func(*reference.File)) func(*tree.Tree, *reference.Root) {
		return func(_ *tree.Tree, theirs *reference.Root) {
			f := theirs.Files[name]
			fn(&f)
			theirs.Files[name] = f
		}
	}
	for name, c := range map[string]struct {
		change func(*tree.Tree, *reference.Root)
		want   Difference
	}{
		"only theirs": {change("/var", func(f *reference.File) {
			*f = reference.File{Type: tar.TypeDir, Mode: 0o700, User: "a", Group: "b", Package: "cron"}
		}), Difference{"missing", "/var", "5 0700 a:b", "cron"}},
		"only ours": {func(_ *tree.Tree, r *reference.Root) { delete(r.Files, "/etc/link") },
			Difference{"extra", "/etc/link", "from script:redis-server.postinst", "redis-server"}},
		"another type": {change("/etc/link", func(f *reference.File) { f.Type = tar.TypeReg }), Difference{"type",
			"/etc/link", "2, theirs 0", "redis-server"}},
		"another mode": {change("/etc/redis.conf", func(f *reference.File) { f.Mode = 0o4640 }), Difference{"mode",
			"/etc/redis.conf", "0640, theirs 4640", "redis-server"}},
		"another owner": {change("/etc/redis.conf", func(f *reference.File) { f.Group = "root" }),
			Difference{"owner", "/etc/redis.conf", "redis:redis, theirs redis:root", "redis-server"}},
		"an owner without a name": {change("/etc", func(f *reference.File) { f.User = "4711" }), Difference{"owner", "/etc",
			"root:root, theirs 4711:root", ""}},
		"other data": {change("/etc/redis.conf", func(f *reference.File) { f.Sum, f.Size = sha256.Sum256([]byte("x")), 1 }),
			Difference{"content", "/etc/redis.conf", "4 bytes, theirs 1", "redis-server"}},
		"another target": {change("/etc/link", func(f *reference.File) { f.Target = "x" }), Difference{"target",
			"/etc/link", "redis.conf, theirs x", "redis-server"}},
		"another capability": {change("/etc/redis.conf", func(f *reference.File) { f.Capability = "\x01" }),
			Difference{"capability", "/etc/redis.conf", ", theirs 01", "redis-server"}},
		"another time": {change("/etc/redis.conf", func(f *reference.File) { f.MTime = 8 }), Difference{"time",
			"/etc/redis.conf", "7, theirs 8", "redis-server"}},
		"a capability of ours": {func(ours *tree.Tree, _ *reference.Root) {
			n, err := ours.Lstat("/etc/redis.conf")
			require.NoError(t, err)
			n.Xattrs = []tree.Xattr{{Name: "security.capability", Value: []byte{2}}}
		}, Difference{"capability", "/etc/redis.conf", "02, theirs ", "redis-server"}},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			c.change(ours, theirs)
			list, err := Trees(ours, theirs)
			require.NoError(t, err)
			require.Equal(t, []Difference{c.want}, list)
		})
	}
}

// broken is data that cannot be read.
type broken struct{}

func (broken) Size() int64                  { return 1 }
func (broken) Open() (io.ReadCloser, error) { return nil, errors.New("it is gone") }

func TestTreesThatCannotBeCompared(t *testing.T) {
	ours, theirs := pair(t)
	n, err := ours.Lstat("/etc/redis.conf")
	require.NoError(t, err)
	n.Content = broken{}
	_, err = Trees(ours, theirs)
	require.ErrorContains(t, err, "/etc/redis.conf: it is gone")

	for file, text := range map[string]string{"/etc/passwd": "root\n", "/etc/group": "root:x:none:\n"} {
		ours, theirs := pair(t)
		n, err := ours.Lstat(file)
		require.NoError(t, err)
		n.Content = tree.Bytes(text)
		_, err = Trees(ours, theirs)
		require.ErrorContains(t, err, file)
	}
}

func TestThePackageOfAnOrigin(t *testing.T) {
	for origin, want := range map[string]string{
		"deb:lua5.4_5.4.7-1": "lua5.4", "script:lua5.4.postinst": "lua5.4", "script:nginx.preinst": "nginx",
		"script:nginx":  "nginx",
		"step:accounts": "", "payload:coredns": "", "": "",
	} {
		require.Equal(t, want, OfOrigin(origin), origin)
	}
}
