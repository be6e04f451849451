package overlay

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/cluster/check"
	"spore/cluster/regular"
)

// page is a file in which every place is at its beginning.
type page string

func (p page) Path() string         { return string(p) }
func (p page) At(...any) (int, int) { return 1, 1 }
func (p page) Has(place ...any) bool {
	return strings.Contains(string(p), fmt.Sprint(place[len(place)-1]))
}
func (p page) Faulty(_, _ int) bool { return false }

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }

func link(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

// read returns the entries and what was reported, one in a line.
func read(fsys fs.FS) ([]Entry, []string) {
	var problems []string
	entries := Read(fsys, func(name, format string, args ...any) {
		problems = append(problems, name+": "+fmt.Sprintf(format, args...))
	})
	return entries, problems
}

func TestFilesAreReadWithTheirKindAndMode(t *testing.T) {
	entries, problems := read(fstest.MapFS{
		"overlay/etc/a.conf":     file("a"),
		"overlay/opt/x/bin/tool": {Data: []byte("#!/bin/sh\n"), Mode: 0o755},
		"overlay/etc/localtime":  link("../usr/share/zoneinfo/Europe/Berlin"),
		"overlay/opt/x/current":  link("bin"),
		"overlay/opt/x/.hidden":  file(""),
		"cluster.yaml":           file("not read"),
	})
	require.Empty(t, problems)
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s %04o %q %q", e.Path, e.Mode(), e.Data, e.Target))
	}
	require.Equal(t, []string{
		`/etc 0755 "" ""`,
		`/etc/a.conf 0644 "a" ""`,
		`/etc/localtime 0777 "" "../usr/share/zoneinfo/Europe/Berlin"`,
		`/opt 0755 "" ""`,
		`/opt/x 0755 "" ""`,
		`/opt/x/.hidden 0644 "" ""`,
		`/opt/x/bin 0755 "" ""`,
		`/opt/x/bin/tool 0755 "#!/bin/sh\n" ""`,
		`/opt/x/current 0777 "" "bin"`,
	}, got)
	require.Equal(t, "overlay/etc/a.conf", entries[1].Source())
}

func TestAFolderWithoutOverlayHasNone(t *testing.T) {
	entries, problems := read(fstest.MapFS{"cluster.yaml": file("")})
	require.Empty(t, entries)
	require.Empty(t, problems)
}

func TestWhatIsNotToBeInTheFolderIsRefused(t *testing.T) {
	const setID = ", which gives rights to whoever starts it; remove it (chmod ug-s), and let a unit start the program as the user that it needs"
	for name, tc := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"a set-user-ID file":              {fstest.MapFS{"overlay/opt/su": {Mode: 0o755 | fs.ModeSetuid}}, "overlay/opt/su: has set-user-ID" + setID},
		"a set-group-ID file":             {fstest.MapFS{"overlay/opt/su": {Mode: 0o755 | fs.ModeSetgid}}, "overlay/opt/su: has set-group-ID" + setID},
		"a device":                        {fstest.MapFS{"overlay/opt/null": {Mode: fs.ModeDevice | fs.ModeCharDevice}}, "overlay/opt/null: it is a character device; an image has regular files, directories and links alone: make it on the machine, by a line of tmpfiles.d(5)"},
		"a block device":                  {fstest.MapFS{"overlay/opt/sda": {Mode: fs.ModeDevice}}, "overlay/opt/sda: it is a block device; an image has regular files, directories and links alone: make it on the machine, by a line of tmpfiles.d(5)"},
		"a FIFO":                          {fstest.MapFS{"overlay/opt/fifo": {Mode: fs.ModeNamedPipe}}, "overlay/opt/fifo: it is a FIFO; an image has regular files, directories and links alone: make it on the machine, by a line of tmpfiles.d(5)"},
		"a socket":                        {fstest.MapFS{"overlay/opt/s": {Mode: fs.ModeSocket}}, "overlay/opt/s: it is a socket; an image has regular files, directories and links alone: make it on the machine, by a line of tmpfiles.d(5)"},
		"an absolute link":                {fstest.MapFS{"overlay/etc/x/zone": link("/usr/share/zoneinfo/UTC")}, "overlay/etc/x/zone: is a link to /usr/share/zoneinfo/UTC, out of the folder; write where it leads to from where it is, such as ../../usr/share/zoneinfo/UTC"},
		"an absolute link at the top":     {fstest.MapFS{"overlay/zone": link("/usr/share/zoneinfo/UTC")}, "overlay/zone: is a link to /usr/share/zoneinfo/UTC, out of the folder; write where it leads to from where it is, such as usr/share/zoneinfo/UTC"},
		"a link out of the folder":        {fstest.MapFS{"overlay/etc/secret": link("../../cluster.yaml")}, "overlay/etc/secret: is a link to ../../cluster.yaml, out of the folder; overlay/ is / of the image: use fewer .."},
		"a link out and in again":         {fstest.MapFS{"overlay/secret": link("../overlay/etc/x")}, "overlay/secret: is a link to ../overlay/etc/x, out of the folder; overlay/ is / of the image: use fewer .."},
		"the folder is a link":            {fstest.MapFS{"overlay": link("elsewhere"), "elsewhere/etc/x": file("")}, "overlay: is a link; make it a folder with the files in it"},
		"the folder is a file":            {fstest.MapFS{"overlay": file("")}, "overlay: is not a folder; make it one, with each file at the path that it has in the image"},
		"a name with a line break":        {fstest.MapFS{"overlay/etc/a\nb": file("")}, "overlay/etc/a\nb: its name has control characters or bytes that are not UTF-8; rename it"},
		"a name that is too long":         {fstest.MapFS{"overlay/" + strings.Repeat("a", 256): file("")}, "overlay/" + strings.Repeat("a", 256) + ": its name has more than 255 bytes; make it shorter"},
		"a link with a control character": {fstest.MapFS{"overlay/x": link("a\nb")}, "overlay/x: is a link to a name that no file has; make it anew"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := read(tc.files)
			require.Equal(t, []string{tc.want}, problems)
		})
	}
}

func TestTheFolderHasBounds(t *testing.T) {
	many := fstest.MapFS{}
	for i := range maxEntries {
		many[fmt.Sprintf("overlay/%04d", i)] = file("")
	}
	_, problems := read(many)
	require.Empty(t, problems)
	many["overlay/one-more"] = file("")
	_, problems = read(many)
	require.Equal(t, []string{"overlay: holds more than 1000 files, links and directories; make a Debian package of them, or fewer"}, problems)

	half := &fstest.MapFile{Data: make([]byte, maxBytes/2), Mode: 0o644}
	large := fstest.MapFS{"overlay/a": half, "overlay/b": half}
	_, problems = read(large)
	require.Empty(t, problems)
	large["overlay/c"] = file("x")
	_, problems = read(large)
	require.Equal(t, []string{"overlay: holds more than 64 MiB; make a Debian package of large files"}, problems)
}

func TestSpecialFilesOfAHostAreRefused(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, "overlay", name) }
	require.NoError(t, os.Mkdir(filepath.Join(dir, "overlay"), 0o755))
	require.NoError(t, unix.Mkfifo(in("fifo"), 0o644))
	l, err := net.Listen("unix", in("socket"))
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, os.Symlink("/etc/passwd", in("link")))
	require.NoError(t, os.WriteFile(in("su"), nil, 0o755))
	require.NoError(t, os.Chmod(in("su"), 0o755|fs.ModeSetuid))
	require.NoError(t, os.WriteFile(in("good"), []byte("x"), 0o600))
	entries, problems := read(regular.Folder(dir))
	require.Len(t, entries, 1)
	require.Equal(t, uint32(0o644), entries[0].Mode(), "a umask does not reach the image")
	require.Len(t, problems, 4)
	for i, want := range []string{"overlay/fifo: it is a FIFO", "overlay/link: is a link to /etc/passwd", "overlay/socket: it is a socket", "overlay/su: has set-user-ID"} {
		require.True(t, strings.HasPrefix(problems[i], want), problems[i])
	}
}

// checked is what Check says of files with these paths.
func checked(settings Settings, keys string, paths ...string) []string {
	var entries []Entry
	for _, p := range paths {
		e := Entry{Path: p}
		if strings.HasSuffix(p, "/") {
			e.Path, e.Type = strings.TrimSuffix(p, "/"), fs.ModeDir
		}
		if strings.HasSuffix(p, "@") {
			e.Path, e.Type = strings.TrimSuffix(p, "@"), fs.ModeSymlink
		}
		entries = append(entries, e)
	}
	k := &check.Checker{}
	Check(k, page("overlay.yaml "+keys), settings, entries, func(name string) check.File { return page(name) })
	var out []string
	for _, p := range k.Report {
		out = append(out, strings.Fields(p.File)[0]+": "+p.Message)
	}
	return out
}

func TestPathsOfTheImageItselfAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"/usr/bin/spore-agent":                                   "the machine is run by it",
		"/bin/spore-agent":                                       "the machine is run by it",
		"/sbin/mkfs.spore":                                       "the machine makes encrypted state by it",
		"/sbin/mount.spore":                                      "the machine mounts its state by it",
		"/usr/lib/spore/manifest.json":                           "the image says there what it is made of",
		"/usr/lib/systemd/system/x":                              "it is systemd's own; put units into units/, and settings into overlay/etc/systemd",
		"/lib/systemd/systemd":                                   "it is systemd's own; put units into units/, and settings into overlay/etc/systemd",
		"/etc/systemd/system/my.service":                         "systemd has units and programs there; put units and drop-ins into units/",
		"/etc/systemd/system.control/my.service":                 "systemd has units and programs there; put units and drop-ins into units/",
		"/etc/systemd/system.attached/my.service":                "systemd has units and programs there; put units and drop-ins into units/",
		"/etc/systemd/system-generators/x":                       "systemd has units and programs there; put units and drop-ins into units/",
		"/etc/systemd/system-environment-generators/x":           "systemd has units and programs there; put units and drop-ins into units/",
		"/etc/systemd/system-preset/x.preset":                    "a unit of units/ is enabled by its [Install] section",
		"/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3/libc.so.6": "libraries there take the place of those of the image where the processor fits",
		"/etc/os-release":                                        "the build writes it, and tools tell images apart by it",
		"/usr/lib/os-release":                                    "the build writes it, and tools tell images apart by it",
		"/var/lib/x":                                             "the state partition is mounted there; let a line of tmpfiles.d(5) make it at boot, in overlay/etc/tmpfiles.d/NAME.conf",
		"/run/x":                                                 "what is mounted there hides it; let a line of tmpfiles.d(5) make it at boot, in overlay/etc/tmpfiles.d/NAME.conf",
		"/tmp/x":                                                 "what is mounted there hides it",
		"/proc/x":                                                "what is mounted there hides it",
		"/sys/x":                                                 "what is mounted there hides it",
		"/dev/x":                                                 "what is mounted there hides it",
		"/boot/x":                                                "the machine boots from its EFI system partition, which the build writes",
		"/efi/x":                                                 "the EFI system partition is written by the build",
		"/etc/passwd":                                            "the build writes it; users and groups come from packages, and from scripts of image.yaml",
		"/usr/lib/sysusers.d/x.conf":                             "nothing reads it: users and groups come from packages, and from scripts of image.yaml",
		"/etc/hosts":                                             "spore-agent writes it at each boot, by cluster.yaml and nodes/",
		"/etc/systemd/network/10-spore-dhcp.network":             "spore-agent writes it at each boot, by cluster.yaml and nodes/",
		"/etc/cluster-config/x":                                  "spore-agent writes it at each boot, by cluster.yaml and nodes/",
	} {
		require.Equal(t, []string{"overlay" + name + ": no file of overlay/ can be at " + name + ": " + want}, checked(Settings{}, "", name))
	}
	require.Empty(t, checked(Settings{}, "", "/etc/", "/etc/systemd/", "/etc/systemd/journald.conf.d/x.conf", "/etc/systemd/system.conf", "/etc/systemd/system.conf.d/",
		"/etc/systemd/system.conf.d/x.conf", "/usr/bin/spore-agent2",
		"/usr/lib/spores", "/varnish", "/etc/systemd/network/20-mine.network", "/etc/tmpfiles.d/x.conf", "/opt/x"))
	require.Len(t, checked(Settings{}, "", "/var/", "/var/lib/", "/var/lib/x"), 1, "what is in a refused directory is not named again")
}

func TestSettingsAreChecked(t *testing.T) {
	paths := []string{"/etc/a.conf", "/etc/d/", "/etc/link@"}
	for name, tc := range map[string]struct {
		path string
		file File
		want string
	}{
		"an owner and a mode":        {"/etc/a.conf", File{Owner: "mosquitto", Mode: "0640"}, ""},
		"a sticky directory":         {"/etc/d", File{Mode: "1777"}, ""},
		"the owner of a link":        {"/etc/link", File{Owner: "root"}, ""},
		"replace":                    {"/etc/a.conf", File{Replace: true}, ""},
		"no such file":               {"/etc/b/c/d/e", File{Mode: "0640"}, "there is no file overlay/etc/b/c/d/e; add the file, or remove the entry"},
		"nearly such a file":         {"/etc/a.con", File{Mode: "0640"}, `there is no file overlay/etc/a.con; did you mean "/etc/a.conf"?`},
		"a path of the folder":       {"etc/a.conf", File{Mode: "0640"}, "there is no file overlay/etc/a.conf; write the absolute path in the image, such as /etc/gateway.conf"},
		"an entry that says nothing": {"/etc/a.conf", File{}, "the entry changes nothing; write one of owner, group, mode and replace, or remove it"},
		"a mode of three digits":     {"/etc/a.conf", File{Mode: "640"}, `"640" is not a mode; write four octal digits in quotes, such as "0640"`},
		"a mode that is no number":   {"/etc/a.conf", File{Mode: "u+rw"}, `"u+rw" is not a mode; write four octal digits in quotes, such as "0640"`},
		"set-user-ID":                {"/etc/a.conf", File{Mode: "4755"}, `"4755" has set-user-ID; write a mode that begins with 0, and let a unit start the program as the user that it needs`},
		"set-group-ID":               {"/etc/d", File{Mode: "2755"}, `"2755" has set-group-ID; write a mode that begins with 0, and let a unit start the program as the user that it needs`},
		"a sticky file":              {"/etc/a.conf", File{Mode: "1644"}, `"1644" has the sticky bit, which means something for directories alone; write a mode that begins with 0`},
		"the mode of a link":         {"/etc/link", File{Mode: "0644"}, "a link has no mode of its own; remove the key"},
		"an owner that is no name":   {"/etc/a.conf", File{Owner: "a:b"}, `"a:b" is not the name of a user; write one that the image has, such as root`},
		"a group that is a number":   {"/etc/a.conf", File{Group: "100"}, `"100" is not the name of a group; write one that the image has, such as root`},
	} {
		t.Run(name, func(t *testing.T) {
			var keys []string
			for key, has := range map[string]bool{"owner": tc.file.Owner != "", "group": tc.file.Group != "", "mode": tc.file.Mode != "", "replace": tc.file.Replace} {
				if has {
					keys = append(keys, key)
				}
			}
			var want []string
			if tc.want != "" {
				want = []string{"overlay.yaml: " + tc.want}
			}
			require.Equal(t, want, checked(Settings{Files: map[string]File{tc.path: tc.file}}, strings.Join(keys, " "), paths...))
		})
	}
}

func TestAnEntryIsGivenItsSettings(t *testing.T) {
	entries := []Entry{{Path: "/etc/a", At: "overlay/etc/a"}, {Path: "/etc/b", At: "overlay/etc/b"}}
	k := &check.Checker{}
	settings := Settings{Files: map[string]File{"/etc/b": {Owner: "mosquitto", Mode: "0640"}}}
	Check(k, page("overlay.yaml owner mode"), settings, entries, func(name string) check.File { return page(name) })
	require.Empty(t, k.Report)
	require.Equal(t, Entry{Path: "/etc/a", At: "overlay/etc/a"}, entries[0])
	require.Equal(t, "mosquitto", entries[1].File.Owner)
	require.Equal(t, uint32(0o640), entries[1].Mode())
	require.Equal(t, "overlay.yaml:1:1", entries[1].At)
}

// FuzzLinks: a link that is let pass stays below /, whatever directories it goes through.
func FuzzLinks(f *testing.F) {
	for _, target := range []string{"a", "../a", "../../a", "/a", "a/../../b", "./..//x", ""} {
		f.Add("/etc/x", target)
	}
	f.Fuzz(func(t *testing.T, name, target string) {
		name = filepath.Clean("/" + name)
		if name == "/" || badTarget(name, target) != "" {
			return
		}
		base := filepath.Join("/host/overlay", filepath.Dir(name), target)
		require.True(t, base == "/host/overlay" || strings.HasPrefix(base, "/host/overlay/"), base)
	})
}
