package deb

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/deb/debtest"
	"spore/builder/tree"
)

// read goes through a package and returns its entries by path, with their content.
func read(data []byte, opts Options) (entries []Header, bodies map[string]string, err error) {
	r, err := NewReader(bytes.NewReader(data), opts)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	bodies = map[string]string{}
	for {
		h, err := r.Next()
		if err == io.EOF {
			return entries, bodies, nil
		}
		if err != nil {
			return entries, bodies, err
		}
		entries = append(entries, *h)
		if h.Size > 0 {
			body, err := io.ReadAll(r)
			if err != nil {
				return entries, bodies, err
			}
			bodies[h.Path] = string(body)
		}
	}
}

var sample = debtest.Deb{
	Control: debtest.Control("sample", "1:2.0-3", "Depends: libc6 (>= 2.38)", "Installed-Size: 12", "Multi-Arch: same", "Essential: yes"),
	Scripts: []debtest.Entry{
		{Name: "./postinst", Body: "#!/bin/sh\nfalse\n", Mode: 0o755},
		{Name: "./conffiles", Body: "/etc/sample/b\n/etc/sample/a\nremove-on-upgrade /etc/sample/old\n"},
		{Name: "./md5sums", Body: "d41d8cd98f00b204e9800998ecf8427e  usr/bin/sample\n"},
	},
	Data: []debtest.Entry{
		{Name: "./"},
		{Name: "./etc/"},
		{Name: "./etc/sample/", Mode: 0o750, GID: 42, Group: "shadow"},
		{Name: "./etc/sample/a", Body: "a"},
		{Name: "./usr/"},
		{Name: "./usr/bin/"},
		{Name: "./usr/bin/sample", Body: "binary", Mode: 0o4755, UID: 7, User: "lp"},
		{Name: "./usr/bin/again", Link: "./usr/bin/sample", Type: tar.TypeLink},
		{Name: "./usr/bin/short", Link: "../bin/sample"},
		{Name: "./usr/bin/capable", Body: "c", Xattrs: map[string]string{"security.capability": "\x01\x00\x00\x02\x00", "security.aaa": "x"}},
		{Name: "./dev/", Mode: 0o755},
		{Name: "./dev/null", Type: tar.TypeChar, Major: 1, Minor: 3},
		{Name: "./dev/disk", Type: tar.TypeBlock, Major: 8, Minor: 16},
		{Name: "./dev/pipe", Type: tar.TypeFifo},
		{Name: "./usr/share/" + strings.Repeat("long/", 60) + "name", Body: "deep"},
		{Name: `./usr/share/dev-x2d\x2d`, Body: "escaped"},
	},
}

func TestAPackageIsReadInEveryCompression(t *testing.T) {
	for _, compress := range []string{"", "gz", "xz", "zst"} {
		t.Run("compression "+compress, func(t *testing.T) {
			d := sample
			d.Compress = compress
			r, err := NewReader(bytes.NewReader(d.Bytes()), Options{})
			require.NoError(t, err)
			defer r.Close()
			c := r.Control()
			require.Equal(t, "sample", c.Package)
			require.Equal(t, "1:2.0-3", c.Version)
			require.Equal(t, "amd64", c.Architecture)
			require.Equal(t, "libc6 (>= 2.38)", c.Depends)
			require.Equal(t, "same", c.MultiArch)
			require.EqualValues(t, 12, c.InstalledSize)
			require.True(t, c.Essential)
			require.Equal(t, strings.TrimSpace(d.Control), c.Paragraph)
			require.Equal(t, []string{"conffiles", "control", "md5sums", "postinst"}, r.ControlFiles())
			require.Equal(t, []string{"/etc/sample/a", "/etc/sample/b"}, r.Conffiles())
			script, ok := r.ControlFile("postinst")
			require.True(t, ok)
			require.Equal(t, "#!/bin/sh\nfalse\n", string(script))
			_, ok = r.ControlFile("prerm")
			require.False(t, ok)

			entries, bodies, err := read(d.Bytes(), Options{})
			require.NoError(t, err)
			require.Len(t, entries, len(d.Data))
			byPath := map[string]Header{}
			for _, e := range entries {
				byPath[e.Path] = e
			}
			const mtime = 1_000_000_000
			require.Equal(t, Header{Path: "/", Inode: tree.Inode{Type: tree.Dir, Mode: 0o755, MTime: mtime}}, byPath["/"])
			require.Equal(t, Header{Path: "/etc/sample", Group: "shadow", Inode: tree.Inode{Type: tree.Dir, Mode: 0o750, GID: 42, MTime: mtime}}, byPath["/etc/sample"])
			require.Equal(t, Header{Path: "/usr/bin/sample", User: "lp", Size: 6, Inode: tree.Inode{Type: tree.Regular, Mode: 0o4755, UID: 7, MTime: mtime}}, byPath["/usr/bin/sample"])
			require.Equal(t, Header{Path: "/usr/bin/again", Link: "/usr/bin/sample"}, byPath["/usr/bin/again"])
			require.Equal(t, "../bin/sample", byPath["/usr/bin/short"].Inode.Target)
			require.Equal(t, tree.Symlink, byPath["/usr/bin/short"].Inode.Type)
			require.Equal(t, []tree.Xattr{{Name: "security.aaa", Value: []byte("x")}, {Name: "security.capability", Value: []byte("\x01\x00\x00\x02\x00")}}, byPath["/usr/bin/capable"].Inode.Xattrs)
			null := byPath["/dev/null"].Inode
			require.Equal(t, []uint32{uint32(tree.CharDevice), 1, 3}, []uint32{uint32(null.Type), null.Major, null.Minor})
			require.Equal(t, tree.BlockDevice, byPath["/dev/disk"].Inode.Type)
			require.Equal(t, tree.Fifo, byPath["/dev/pipe"].Inode.Type)
			require.Equal(t, "binary", bodies["/usr/bin/sample"])
			require.Equal(t, "deep", bodies["/usr/share/"+strings.Repeat("long/", 60)+"name"])
			require.Contains(t, bodies, `/usr/share/dev-x2d\x2d`)
		})
	}
}

func TestMembersWithAnUnderscoreAreSkipped(t *testing.T) {
	control := debtest.Tar(debtest.Entry{Name: "control", Body: debtest.Control("aa", "1")})
	data := debtest.Ar(
		debtest.Member{Name: "debian-binary", Data: []byte("2.1\nmore\n")},
		debtest.Member{Name: "_gpgorigin", Data: []byte("odd")},
		debtest.Member{Name: "control.tar/", Data: control},
		debtest.Member{Name: "_x", Data: []byte("1")},
		debtest.Member{Name: "data.tar", Data: debtest.Tar()},
		debtest.Member{Name: "whatever", Data: []byte("1")},
	)
	entries, _, err := read(data, Options{})
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestAPackageCutShortAnywhereIsRefused(t *testing.T) {
	for _, compress := range []string{"", "gz", "xz", "zst"} {
		d := debtest.Deb{Control: debtest.Control("aa", "1"), Compress: compress,
			Data: []debtest.Entry{{Name: "./a", Body: strings.Repeat("content ", 300)}, {Name: "./b", Body: "b"}}}
		whole := d.Bytes()
		_, _, err := read(whole, Options{})
		require.NoError(t, err)
		step := max(1, len(whole)/400)
		for n := 0; n < len(whole)-1; n += step { // the last byte may be padding
			_, _, err := read(whole[:n], Options{})
			require.Error(t, err, "%s: %d of %d bytes", compress, n, len(whole))
		}
	}
}

func TestAFlippedByteInACompressedPackageChangesNothingUnnoticed(t *testing.T) {
	d := debtest.Deb{Control: debtest.Control("aa", "1"), Compress: "xz", Data: []debtest.Entry{{Name: "./a", Body: strings.Repeat("content ", 300)}}}
	whole := d.Bytes()
	entries, bodies, err := read(whole, Options{})
	require.NoError(t, err)
	noticed := 0
	for n := bytes.Index(whole, []byte("data.tar.xz")) + 60; n < len(whole); n++ {
		bad := bytes.Clone(whole)
		bad[n] ^= 0x10
		e, b, err := read(bad, Options{})
		if err != nil {
			noticed++
			continue
		}
		// The padding of ar and the first byte of the range coder carry nothing.
		require.Equal(t, entries, e, "byte %d", n)
		require.Equal(t, bodies, b, "byte %d", n)
	}
	require.Greater(t, noticed, 100)
}

func TestWhatIsNoPackageIsRefused(t *testing.T) {
	binaryMember := debtest.Member{Name: "debian-binary", Data: []byte("2.0\n")}
	control := func(text string) debtest.Member {
		return debtest.Member{Name: "control.tar", Data: debtest.Tar(debtest.Entry{Name: "./control", Body: text})}
	}
	good := debtest.Control("aa", "1")
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":                  {nil, "unexpected EOF"},
		"something else":           {[]byte("PK\x03\x04 a zip file"), "not a Debian package"},
		"an ar archive":            {debtest.Ar(debtest.Member{Name: "x.o", Data: []byte("1")}), "its first member is not debian-binary"},
		"an empty ar archive":      {debtest.Ar(), "its first member is not debian-binary"},
		"a format of the future":   {debtest.Ar(debtest.Member{Name: "debian-binary", Data: []byte("3.0\n")}), `format "3.0\n" is unknown`},
		"a format without an end":  {debtest.Ar(debtest.Member{Name: "debian-binary", Data: []byte("2.0")}), "is unknown"},
		"no control":               {debtest.Ar(binaryMember), "there is no control.tar"},
		"data before control":      {debtest.Ar(binaryMember, debtest.Member{Name: "data.tar"}, control(good)), `member "data.tar" is where control.tar belongs`},
		"no data":                  {debtest.Ar(binaryMember, control(good)), "there is no data.tar"},
		"too many members":         {debtest.Ar(append([]debtest.Member{binaryMember}, make([]debtest.Member, 40)...)...), ""},
		"too many skipped members": {debtest.Ar(append([]debtest.Member{binaryMember}, repeat(debtest.Member{Name: "_x"}, 40)...)...), "more than 32 members"},
		"an unknown compression":   {debtest.Ar(binaryMember, debtest.Member{Name: "control.tar.lzma", Data: []byte("x")}), `compression "lzma" is unknown`},
		"no xz stream":             {debtest.Ar(binaryMember, debtest.Member{Name: "control.tar.xz", Data: []byte("this is no xz stream")}), "not an .xz file"},
		"a damaged member header":  {bytes.Replace(debtest.Ar(binaryMember), []byte("`\n"), []byte("''"), 1), "is not debian-binary"},
		"a size that is none":      {bytes.Replace(debtest.Ar(binaryMember, control(good)), []byte("2048 "), []byte("20x8 "), 1), "has the size"},
		"no control file":          {debtest.Ar(binaryMember, debtest.Member{Name: "control.tar", Data: debtest.Tar()}), "there is no control file"},
		"an empty control file":    {debtest.Ar(binaryMember, control("")), "the control file is empty"},
		"two paragraphs":           {debtest.Ar(binaryMember, control(good+"\n"+good)), "more than one paragraph"},
		"no name":                  {debtest.Ar(binaryMember, control("Version: 1\nArchitecture: all\n")), `"" is not a package name`},
		"a name that is a path":    {debtest.Ar(binaryMember, control(debtest.Control("../aa", "1"))), `"../aa" is not a package name`},
		"no version":               {debtest.Ar(binaryMember, control("Package: aa\nArchitecture: all\n")), "a version is empty"},
		"a bad architecture":       {debtest.Ar(binaryMember, control("Package: aa\nVersion: 1\nArchitecture: a/b\n")), "is not an architecture"},
		"a bad size":               {debtest.Ar(binaryMember, control(good+"Installed-Size: -1\n")), "Installed-Size"},
		"a line that is no field":  {debtest.Ar(binaryMember, control(good+"nonsense\n")), "not a field"},
		"a link in control": {debtest.Ar(binaryMember, debtest.Member{Name: "control.tar", Data: debtest.Tar(debtest.Entry{Name: "./control", Link: "/etc/passwd"})}),
			"only plain files"},
		"a folder in control": {debtest.Ar(binaryMember, debtest.Member{Name: "control.tar", Data: debtest.Tar(debtest.Entry{Name: "./x/control", Body: good})}),
			"only plain files"},
		"control twice": {debtest.Ar(binaryMember, debtest.Member{Name: "control.tar", Data: debtest.Tar(debtest.Entry{Name: "./control", Body: good}, debtest.Entry{Name: "control", Body: good})}),
			"occurs twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := read(c.data, Options{})
			require.ErrorContains(t, err, c.want)
		})
	}
}

func repeat(m debtest.Member, n int) []debtest.Member {
	var out []debtest.Member
	for range n {
		out = append(out, m)
	}
	return out
}

func TestEntriesThatLeadElsewhereAreRefused(t *testing.T) {
	file := debtest.Entry{Name: "./a", Body: "a"}
	for name, c := range map[string]struct {
		data []debtest.Entry
		want string
	}{
		"an absolute path":                  {[]debtest.Entry{{Name: "/etc/passwd", Body: "x"}}, "is absolute"},
		"a way out":                         {[]debtest.Entry{{Name: "./../x", Body: "x"}}, `leads out of the archive by ".."`},
		"a way out further on":              {[]debtest.Entry{{Name: "./a/b/../../../x", Body: "x"}}, "leads out"},
		"a line feed":                       {[]debtest.Entry{{Name: "./a\nb", Body: "x"}}, "a NUL byte or a line feed"},
		"a long element":                    {[]debtest.Entry{{Name: "./" + strings.Repeat("a", 256), Body: "x"}}, "an element of more than 255 bytes"},
		"a long path":                       {[]debtest.Entry{{Name: "./" + strings.Repeat("abc/", 1100), Body: "x"}}, "more than 4095 bytes"},
		"the same file twice":               {[]debtest.Entry{file, file}, "/a occurs twice"},
		"the same file by another name":     {[]debtest.Entry{file, {Name: "././a", Body: "b"}}, "/a occurs twice"},
		"a file over a directory":           {[]debtest.Entry{{Name: "./a/"}, file}, "/a occurs twice"},
		"a file over an implied directory":  {[]debtest.Entry{{Name: "./a/b", Body: "b"}, file}, "/a occurs twice"},
		"a root that is not a directory":    {[]debtest.Entry{{Name: "./", Type: tar.TypeSymlink, Link: "/"}}, ""},
		"a file below a file":               {[]debtest.Entry{file, {Name: "./a/b", Body: "b"}}, "/a/b lies below /a, which is not a directory"},
		"a file below a symbolic link":      {[]debtest.Entry{{Name: "./a", Link: "/etc"}, {Name: "./a/b", Body: "b"}}, "lies below /a"},
		"a hard link to nothing":            {[]debtest.Entry{{Name: "./b", Link: "./a", Type: tar.TypeLink}}, "a hard link to /a, which is not a file"},
		"a hard link forward":               {[]debtest.Entry{{Name: "./b", Link: "./a", Type: tar.TypeLink}, file}, "which is not a file of the archive before it"},
		"a hard link to a directory":        {[]debtest.Entry{{Name: "./a/"}, {Name: "./b", Link: "./a", Type: tar.TypeLink}}, "which is not a file"},
		"a hard link out":                   {[]debtest.Entry{{Name: "./b", Link: "../a", Type: tar.TypeLink}}, "leads out"},
		"a hard link to the machine's file": {[]debtest.Entry{{Name: "./b", Link: "/etc/shadow", Type: tar.TypeLink}}, "is absolute"},
		"a symbolic link to nowhere":        {[]debtest.Entry{{Name: "./b", Type: tar.TypeSymlink}}, "an empty path"},
		"a device that cannot be":           {[]debtest.Entry{{Name: "./b", Type: tar.TypeChar, Major: 1 << 12}}, "there is no device"},
		"an owner that cannot be":           {[]debtest.Entry{{Name: "./b", UID: 1<<32 - 1}}, "is not a user and group id"},
		"an attribute without a namespace":  {[]debtest.Entry{{Name: "./b", Xattrs: map[string]string{"plain": "x"}}}, "extended attribute"},
		"an attribute that is too large":    {[]debtest.Entry{{Name: "./b", Xattrs: map[string]string{"user.x": strings.Repeat("x", maxXattr+1)}}}, "extended attribute"},
		"a type that no package has":        {[]debtest.Entry{{Name: "./b", Type: 'V'}}, "tar type 'V'"},
	} {
		t.Run(name, func(t *testing.T) {
			d := debtest.Deb{Control: debtest.Control("aa", "1"), Data: c.data}
			_, _, err := read(d.Bytes(), Options{})
			require.ErrorContains(t, err, "package aa 1: data archive: ")
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestBombsAreBounded(t *testing.T) {
	zeros := strings.Repeat("\x00", 1<<20)
	d := debtest.Deb{Control: debtest.Control("aa", "1"), Compress: "xz", Data: []debtest.Entry{{Name: "./a", Body: zeros}, {Name: "./b", Body: zeros}}}
	_, _, err := read(d.Bytes(), Options{MaxSize: 1<<20 + 1<<19})
	require.ErrorContains(t, err, "more than 1572864 bytes")
	_, _, err = read(d.Bytes(), Options{MaxEntries: 1})
	require.ErrorContains(t, err, "more than 1 entries")
	_, _, err = read(d.Bytes(), Options{})
	require.NoError(t, err)

	d = debtest.Deb{Control: debtest.Control("aa", "1"), Compress: "zst", Scripts: []debtest.Entry{{Name: "./x", Body: zeros}}}
	_, _, err = read(d.Bytes(), Options{MaxControl: 1 << 19})
	require.ErrorContains(t, err, "more than 524288 bytes once decompressed")

	// What follows the end of a tar archive counts too.
	long := append(debtest.Tar(), zeros...)
	data := debtest.Ar(debtest.Member{Name: "debian-binary", Data: []byte("2.0\n")},
		debtest.Member{Name: "control.tar", Data: debtest.Tar(debtest.Entry{Name: "control", Body: debtest.Control("aa", "1")})},
		debtest.Member{Name: "data.tar.gz", Data: debtest.Compress("gz", long)})
	_, _, err = read(data, Options{MaxSize: 1 << 19})
	require.ErrorContains(t, err, "more than 524288 bytes once decompressed")

	// An xz stream that asks for a dictionary of 4 GiB (xz-file-format, section 5.3.1).
	huge := debtest.Compress("xz", debtest.Tar())
	at := bytes.IndexByte(huge[12:], 0x21) + 12 // the filter's id; its properties' size and the dictionary follow
	huge[at+2] = 40
	crc := crc32.ChecksumIEEE(huge[12 : 12+8])
	binary.LittleEndian.PutUint32(huge[20:], crc)
	data = debtest.Ar(debtest.Member{Name: "debian-binary", Data: []byte("2.0\n")}, debtest.Member{Name: "control.tar.xz", Data: huge})
	_, _, err = read(data, Options{})
	require.ErrorContains(t, err, "larger dictionary than is allowed")
}

func TestAnErrorStays(t *testing.T) {
	d := debtest.Deb{Control: debtest.Control("aa", "1"), Data: []debtest.Entry{{Name: "./../x", Body: "x"}, {Name: "./b", Body: "b"}}}
	r, err := NewReader(bytes.NewReader(d.Bytes()), Options{})
	require.NoError(t, err)
	defer r.Close()
	_, first := r.Next()
	require.Error(t, first)
	_, again := r.Next()
	require.Equal(t, first, again)
	_, err = r.Read(make([]byte, 1))
	require.Equal(t, first, err)
	require.False(t, errors.Is(err, io.EOF))
}
