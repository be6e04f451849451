package iso9660_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/iso9660"
)

const mib = 1 << 20

// foreign has a foreign program make a volume of files.
func foreign(t testing.TB, files map[string]string, program string, arguments ...string) []byte {
	t.Helper()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "volume.iso")
	for name, content := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	text, err := exec.Command(program, append(arguments, "-o", out, dir)...).CombinedOutput()
	require.NoError(t, err, "%s\nrun make deps", text)
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	return data
}

func seed() map[string]string {
	files := map[string]string{
		"meta-data": "instance-id: i-1\n", "user-data": strings.Repeat("#cloud-config\n", 1000), "network-config": "", "folder/meta-data": "another",
		strings.Repeat("a-name-that-goes-on-", 12): "continued",
	}
	for i := range 60 { // More than one sector of records.
		files[fmt.Sprintf("file-with-a-long-name-%02d.yaml", i)] = fmt.Sprint(i)
	}
	return files
}

func TestVolumesOfForeignToolsAreRead(t *testing.T) {
	xorriso := []string{"-as", "mkisofs", "-V", "cidata"}
	for name, tc := range map[string]struct {
		program   string
		arguments []string
		label     string
		// long says that the longest name is kept.
		long bool
	}{
		"xorriso with Rock Ridge":               {"xorriso", append(xorriso, "-R"), "cidata", true},
		"xorriso with Joliet":                   {"xorriso", append(xorriso, "-J", "-joliet-long", "--norock"), "cidata", false},
		"xorriso with both":                     {"xorriso", append(xorriso, "-J", "-R"), "cidata", true},
		"genisoimage as cloud-localds calls it": {"genisoimage", []string{"-volid", "cidata", "-joliet", "-rock"}, "cidata", true},
		"genisoimage with Joliet":               {"genisoimage", []string{"-V", "CIDATA", "-J", "-joliet-long"}, "CIDATA", false},
		"genisoimage with Rock Ridge":           {"genisoimage", []string{"-V", "CIDATA", "-r"}, "CIDATA", true},
	} {
		t.Run(name, func(t *testing.T) {
			want := seed()
			data := foreign(t, want, tc.program, tc.arguments...)
			v, err := iso9660.Open(bytes.NewReader(data), int64(len(data)))
			require.NoError(t, err)
			require.Equal(t, tc.label, v.Label())
			require.Len(t, v.Names(), len(want)-1, "%q", v.Names())
			for name, content := range want {
				if strings.Contains(name, "/") || len(name) > 100 && !tc.long {
					continue
				}
				got, err := v.ReadFile(name, mib)
				require.NoError(t, err)
				require.Equal(t, content, string(got), name)
			}
			_, err = v.ReadFile("folder", mib)
			require.ErrorIs(t, err, fs.ErrNotExist)
			_, err = v.ReadFile("user-data", 100)
			require.ErrorContains(t, err, "user-data has 14000 bytes, more than 100")
		})
	}
}

func TestANameWithoutRockRidgeAndJolietIsThatOfTheStandard(t *testing.T) {
	data := foreign(t, map[string]string{"notes": "a", "b.txt": "b"}, "genisoimage", "-V", "CIDATA")
	v, err := iso9660.Open(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, []string{"B.TXT", "NOTES"}, v.Names())
	got, err := v.ReadFile("notes", mib)
	require.NoError(t, err)
	require.Equal(t, "a", string(got))
}

// rootAt is where the root directory of a volume lies, in bytes.
func rootAt(data []byte) int { return int(binary.LittleEndian.Uint32(data[16*2048+158:])) * 2048 }

// recordOf is where the record that has a text lies.
func recordOf(data []byte, text string) int {
	root := rootAt(data)
	for at := root; data[at] != 0; at += int(data[at]) {
		if bytes.Contains(data[at:at+int(data[at])], []byte(text)) {
			return at
		}
	}
	return -1
}

func TestWhatIsNoSoundVolumeIsRefused(t *testing.T) {
	const pvd = 16 * 2048
	data := foreign(t, map[string]string{"meta-data": "x", strings.Repeat("long", 60): "y"}, "xorriso", "-as", "mkisofs", "-V", "CIDATA", "-R")
	le := binary.LittleEndian
	for name, tc := range map[string]struct {
		change func(b []byte)
		want   string
	}{
		"no descriptor":                    {func(b []byte) { b[pvd+1] = 'X' }, "no primary volume descriptor"},
		"blocks of a strange size":         {func(b []byte) { b[pvd+128] = 1 }, "blocks of"},
		"a root that is too large":         {func(b []byte) { le.PutUint32(b[pvd+166:], 1<<31) }, "more than 1048576"},
		"a root behind the end":            {func(b []byte) { le.PutUint32(b[pvd+158:], 1<<31) }, "root directory lies behind the end"},
		"a root without a record":          {func(b []byte) { b[pvd+156] = 0 }, "root directory has no record"},
		"a record that is too short":       {func(b []byte) { b[recordOf(b, "meta-data")] = 3 }, "wrong lengths"},
		"a name over the end":              {func(b []byte) { b[recordOf(b, "meta-data")+32] = 255 }, "wrong lengths"},
		"a continuation behind the end":    {func(b []byte) { le.PutUint32(b[continuationOf(b)+4:], 1<<31) }, "a continuation lies outside"},
		"a continuation that leads itself": {loop, "more than 8 places"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := bytes.Clone(data)
			tc.change(changed)
			_, err := iso9660.Open(bytes.NewReader(changed), int64(len(changed)))
			require.ErrorIs(t, err, iso9660.ErrUnsound)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// continuationOf is where the field is that says where the long name of a file goes on.
func continuationOf(b []byte) int {
	at := recordOf(b, "longlong")
	return at + bytes.Index(b[at:], []byte("CE\x1c\x01"))
}

// loop lets the continuation of a record be the field that leads to it.
func loop(b []byte) {
	at := continuationOf(b)
	le := binary.LittleEndian
	le.PutUint32(b[at+4:], uint32(at/2048))
	le.PutUint32(b[at+12:], uint32(at%2048))
	le.PutUint32(b[at+20:], 28)
}

func TestAFileThatCannotBeReadSaysWhy(t *testing.T) {
	data := foreign(t, map[string]string{"meta-data": "x"}, "xorriso", "-as", "mkisofs", "-V", "CIDATA", "-R")
	for name, tc := range map[string]struct {
		change func(record []byte)
		want   string
	}{
		"several extents": {func(r []byte) { r[25] |= 0x80 }, "several extents"},
		"interleaved":     {func(r []byte) { r[26] = 1 }, "interleaved"},
		"behind the end":  {func(r []byte) { binary.LittleEndian.PutUint32(r[2:], 1<<31) }, "behind the end"},
		"a link":          {func(r []byte) { copy(r[bytes.Index(r, []byte("PX")):], "SL") }, "symbolic link"},
		"compressed":      {func(r []byte) { copy(r[bytes.Index(r, []byte("PX")):], "ZF") }, "compressed"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := bytes.Clone(data)
			at := recordOf(changed, "meta-data")
			tc.change(changed[at : at+int(changed[at])])
			v, err := iso9660.Open(bytes.NewReader(changed), int64(len(changed)))
			require.NoError(t, err)
			_, err = v.ReadFile("meta-data", mib)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// FuzzOpen reads whatever a disc may hold: volumes of foreign tools with one change each.
// counted counts the reads of what it reads from.
type counted struct {
	*bytes.Reader
	reads int
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	return c.Reader.ReadAt(p, off)
}

// A volume whose every file goes on in a sector that is full of continuations, each of them that sector again, costs one
// read for each that is followed.
func TestContinuationsThatGoOnInManyPlacesCostLittle(t *testing.T) {
	data := foreign(t, map[string]string{"meta-data": "x"}, "xorriso", "-as", "mkisofs", "-V", "CIDATA", "-R")
	full := len(data)
	data = append(data, make([]byte, 2048)...)
	ce := make([]byte, 28)
	copy(ce, "CE\x1c\x01")
	le := binary.LittleEndian
	le.PutUint32(ce[4:], uint32(full/2048))
	le.PutUint32(ce[20:], 2048)
	for at := full; at+len(ce) <= len(data); at += len(ce) {
		copy(data[at:], ce)
	}
	record := recordOf(data, "META_DAT")
	copy(data[record+bytes.Index(data[record:], []byte("PX")):], ce)
	r := &counted{Reader: bytes.NewReader(data)}
	_, err := iso9660.Open(r, int64(len(data)))
	require.ErrorContains(t, err, "the name of a file goes on in more than 8 places")
	require.Less(t, r.reads, 32)
}

func FuzzOpen(f *testing.F) {
	files := map[string]string{"meta-data": "x", "user-data": "y", strings.Repeat("long", 60): "z"}
	var volumes [][]byte
	for _, arguments := range [][]string{{"-R"}, {"-J", "--norock"}, {"-J", "-R"}} {
		data := foreign(f, files, "xorriso", append([]string{"-as", "mkisofs", "-V", "CIDATA"}, arguments...)...)
		volumes = append(volumes, data[16*2048:]) // What is before is nobody's.
	}
	f.Add(byte(0), uint32(0), byte(0))
	f.Add(byte(1), uint32(156), byte(1))
	f.Add(byte(2), uint32(2048*3+33), byte(255))
	// A root directory of 1 GiB, one behind the end, and blocks of another size.
	f.Add(byte(0), uint32(169), byte(0x40))
	f.Add(byte(1), uint32(161), byte(0x80))
	f.Add(byte(0), uint32(129), byte(0x0a))
	f.Add(byte(0), uint32(2048*4+100), byte(7))
	f.Fuzz(func(t *testing.T, kind byte, at uint32, value byte) {
		part := volumes[int(kind)%len(volumes)]
		data := append(make([]byte, 16*2048), part...)
		data[16*2048+int(at)%len(part)] ^= value
		v, err := iso9660.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		for _, name := range v.Names() {
			got, err := v.ReadFile(name, mib)
			if err == nil {
				require.LessOrEqual(t, len(got), mib)
			}
		}
	})
}
