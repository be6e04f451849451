package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
)

// member is one of an archive that a test makes.
type member struct {
	name, content, link string
	kind                byte
	mode                int64
}

func tarOf(t testing.TB, list ...member) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range list {
		h := &tar.Header{Name: m.name, Typeflag: m.kind, Mode: m.mode, Size: int64(len(m.content)), Linkname: m.link}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		require.NoError(t, w.WriteHeader(h))
		_, err := io.WriteString(w, m.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zipOf(t testing.TB, list ...member) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, m := range list {
		h := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		h.SetMode(fs.FileMode(m.mode))
		if m.link != "" {
			h.SetMode(fs.ModeSymlink | 0o777)
		}
		f, err := w.CreateHeader(h)
		require.NoError(t, err)
		_, err = io.WriteString(f, m.content+m.link)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func compressed(t testing.TB, how string, data []byte) []byte {
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch how {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "xz":
		w, err = xz.NewWriter(&out)
	case "zstd":
		w, err = zstd.NewWriter(&out)
	}
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// took is what was handed over, by name; an executable file has a star behind it.
func took(l limits, data []byte, names ...string) (map[string]string, error) {
	out := map[string]string{}
	err := takeWithin(l, bytes.NewReader(data), int64(len(data)), names, func(m Member) error {
		content, err := io.ReadAll(m.Content)
		if m.Executable {
			m.Name += "*"
		}
		out[m.Name] = string(content)
		return err
	})
	return out, err
}

var usual = limits{maxUnpacked, maxMembers}

func TestNamedFilesAreTakenFromEveryForm(t *testing.T) {
	list := []member{
		{name: "tool-1.2/", kind: tar.TypeDir, mode: 0o755}, {name: "tool-1.2/bin/tool", content: "\x7fELF program",
			mode: 0o755},
		{name: "./tool-1.2/share/data", content: strings.Repeat("data ", 10_000), mode: 0o644}, {name: "tool-1.2/other",
			content: "other", mode: 0o644},
	}
	plain := tarOf(t, list...)
	for form, data := range map[string][]byte{
		"tar": plain, "tar.gz": compressed(t, "gzip", plain), "tar.xz": compressed(t, "xz", plain), "tar.zst": compressed(t,
			"zstd", plain),
		"zip": zipOf(t, list[1:]...),
	} {
		t.Run(form, func(t *testing.T) {
			got, err := took(usual, data, "tool-1.2/share/data", "tool-1.2/bin/tool")
			require.NoError(t, err)
			require.Equal(t, map[string]string{"tool-1.2/bin/tool*": "\x7fELF program", "tool-1.2/share/data": list[2].content},
				got)
		})
	}
}

func TestWhatAnArchiveMustNotHave(t *testing.T) {
	file := member{name: "bin/x", content: "x", mode: 0o755}
	bomb := member{name: "zeros", content: strings.Repeat("\x00", 100_000), mode: 0o644}
	small := limits{50_000, 3}
	gz := func(list ...member) []byte { return compressed(t, "gzip", tarOf(t, list...)) }
	truncated := gz(file, bomb)
	for _, tc := range []struct {
		name string
		l    limits
		data []byte
		want string
	}{
		{"a bomb in a member that is not taken", small, gz(bomb, file), "it unpacks to more than 50000 bytes"},
		{"a bomb that is taken", small, gz(member{name: "bin/x", content: bomb.content}), "it unpacks to more than 50000 " +
			"bytes"},
		{"a bomb in zip", small, zipOf(t, member{name: "bin/x", content: bomb.content}), "it unpacks to more than 50000 " +
			"bytes"},
		{"too many members", small, gz(file, member{name: "a"}, member{name: "b"}, member{name: "c"}), "it has more than " +
			"3 members"},
		{"too many members in zip", small, zipOf(t, file, member{name: "a"}, member{name: "b"}, member{name: "c"}),
			"it has more than 3 members"},
		{"a path out", usual, gz(member{name: "../../etc/passwd"}, file),
			`its member "../../etc/passwd" leads out of it; such an archive is made to do harm: take none of it`},
		{"a path out in zip", usual, zipOf(t, member{name: `bin\..\..\x`}, file),
			`its member "bin\\..\\..\\x" leads out of it; such an archive is made to do harm: take none of it`},
		{"a path around", usual, gz(member{name: "a/../bin/x", content: "other"}),
			`its member "a/../bin/x" leads out of it; such an archive is made to do harm: take none of it`},
		{"a link", usual, gz(member{name: "bin/x", kind: tar.TypeSymlink, link: "/etc/shadow"}),
			`its member "bin/x" is a link to "/etc/shadow"; name that file, and write links for further names`},
		{"a hard link", usual, gz(member{name: "y"}, member{name: "bin/x", kind: tar.TypeLink, link: "y"}),
			`its member "bin/x" is a link to "y"; name that file, and write links for further names`},
		{"a link in zip", usual, zipOf(t, member{name: "bin/x", link: "/etc/shadow"}),
			`its member "bin/x" is a link to "another file"; name that file, and write links for further names`},
		{"a device", usual, gz(member{name: "bin/x", kind: tar.TypeBlock}), `its member "bin/x" is a device; only regular ` +
			`files are taken`},
		{"a FIFO", usual, gz(member{name: "bin/x", kind: tar.TypeFifo}),
			`its member "bin/x" is not a regular file; only those are taken`},
		{"a directory", usual, gz(member{name: "bin/x/", kind: tar.TypeDir}), `its member "bin/x" is a directory; name ` +
			`its files`},
		{"set-user-ID", usual, gz(member{name: "bin/x", content: "x", mode: 0o4755}),
			`its member "bin/x" has set-user-ID or set-group-ID, which would give rights to whoever starts it; take it out ` +
				`of the archive's mode`},
		{"a member twice", usual, gz(file, member{name: "./bin/x", content: "other"}), `it has the member "bin/x" twice`},
		{"a member in another folder", usual, gz(member{name: "tool-1.2/bin/x"}), `it has no member "bin/x"; did you mean ` +
			`"tool-1.2/bin/x"?`},
		{"a member that is not there", usual, gz(member{name: "readme"}), `it has no member "bin/x"`},
		{"one compressed file", usual, compressed(t, "gzip", []byte(strings.Repeat("program", 200))),
			"what is compressed in it (gzip) is not a tar archive: archive/tar: invalid tar header"},
		{"something else", usual, []byte("\x7fELF"), "it is neither tar (plain, or compressed with gzip, xz or zstd) nor zip"},
		{"nothing", usual, nil, "it is neither tar (plain, or compressed with gzip, xz or zstd) nor zip"},
		{"a truncated archive", usual, truncated[:len(truncated)-20], "it is damaged: unexpected EOF"},
		{"a damaged zip", usual, zipOf(t, file)[:60], "it is damaged: zip: not a valid zip file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := took(tc.l, tc.data, "bin/x")
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestAListOfZipMembersIsBounded(t *testing.T) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	name := strings.Repeat("n", 60_000)
	for range 2 * maxDirectory / len(name) {
		_, err := w.CreateHeader(&zip.FileHeader{Name: name})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	_, err := took(usual, out.Bytes(), "bin/x")
	require.EqualError(t, err, "the list of its members has more than 16777216 bytes")
}

// FuzzTake reads anything as an archive: no panic, and what is handed over has the size that was said, within the
// bounds.
func FuzzTake(f *testing.F) {
	list := []member{{name: "bin/x", content: "program", mode: 0o755}, {name: "y", content: "data"}}
	plain := tarOf(f, list...)
	for _, data := range [][]byte{
		plain, zipOf(f, list...), compressed(f, "gzip", plain), compressed(f, "xz", plain), compressed(f, "zstd", plain),
		tarOf(f, member{name: "../bin/x"}), tarOf(f, member{name: "bin/x", kind: tar.TypeSymlink, link: "y"}),
	} {
		f.Add(data)
	}
	l := limits{1 << 20, 100}
	f.Fuzz(func(t *testing.T, data []byte) {
		var sum int64
		err := takeWithin(l, bytes.NewReader(data), int64(len(data)), []string{"bin/x", "y"}, func(m Member) error {
			require.Contains(t, []string{"bin/x", "y"}, m.Name)
			n, err := io.Copy(io.Discard, m.Content)
			if err == nil {
				require.Equal(t, m.Size, n)
			}
			sum += n
			return err
		})
		require.LessOrEqual(t, sum, l.unpacked)
		if err != nil {
			require.NotEmpty(t, err.Error())
		}
	})
}
