package nocloud

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/faults"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	// bound is more memory than all that is hostile may take, in bytes, from beginning to end: what is held at a time is
	// less. A machine with 512 MiB has it to spare.
	bound = 96 * mib
	// patience is more than any of it takes on a machine that does ten other things.
	patience = 30 * time.Second
)

// within has do take no more memory than a bound, and not much time.
func within(t testing.TB, do func() Found) Found {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	f := do()
	require.Less(t, time.Since(began), patience)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(bound))
	for _, s := range append(f.NotTaken, f.Problem) {
		require.Less(t, len(s), 2048)
		require.False(t, strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }), "%q", s)
	}
	return f
}

// bomb is YAML that has more values than any memory where its aliases are followed.
func bomb(levels int) string {
	out := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range levels {
		out += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), ", "))
	}
	return out
}

// directives are those of YAML that differ.
func directives(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "%%TAG !%x! b\n", i)
	}
	return out.String()
}

// full is a text of 1 MiB.
func full(begin, again, end string) string {
	return begin + strings.Repeat(again, (MaxFile-len(begin)-len(end))/len(again)) + end
}

// hostileDocuments are user-data. Where problem is empty, the document is read, and it is harmless.
var hostileDocuments = map[string]struct{ text, problem string }{
	"a bomb of aliases":                 {bomb(12), ""},
	"a bomb as the node":                {bomb(12) + "spore: {node: *a12}\n", "an alias is not followed"},
	"an alias of itself":                {"spore: &a\n  node: *a\n", "an alias is not followed"},
	"a merge of a bomb":                 {bomb(12) + "spore:\n  <<: *a12\n", "a key is to be a text"},
	"half a million levels in brackets": {full("", "[", ""), "it has more than 100000 lines"},
	"fifty thousand levels":             {strings.Repeat("[", 50_000), "it is no YAML"},
	"fifty thousand levels of blocks":   {strings.Repeat("- ", 50_000), "it is no YAML"},
	"a thousand levels":                 {"a: " + strings.Repeat("{a: ", 1000) + strings.Repeat("}", 1000), "more than 24 levels"},
	"a million values":                  {full("a: [", "a,", "a]"), "it has more than 100000 lines"},
	"as many values as the parser gets": {"a: [" + strings.Repeat("a,", maxMarks-2) + "a]", "20000 values"},
	"as many keys as the parser gets":   {strings.Repeat("?\n", maxMarks), "20000 values"},
	"values by a break of Unicode":      {full("a:\n", "\u2028- ", ""), "it has more than 100000 lines"},
	"a million comments":                {full("", "#\n", ""), "it has more than 100000 lines"},
	"a text of 1 MiB":                   {full("a: \"", "\\L", "\""), ""},
	"a key of 1 MiB":                    {full("? ", "b", "\n: x"), ""},
	"a node of 1 MiB":                   {full("spore: {node: ", "b", "}"), "is not a host name"},
	"a key twice":                       {"spore: {node: edge-01, node: edge-02}", "is there twice"},
	"a key twice, quoted once":          {"spore: {node: edge-01}\n\"spore\": {node: edge-02}\n", "is there twice"},
	"two documents":                     {"spore: {node: edge-01}\n---\nspore: {node: edge-02}\n", "behind the end of the first document"},
	"a NUL":                             {"spore: {node: edge-01}\x00", "it is no text"},
	"UTF-16, low byte first":            {"\xff\xfes\x00p\x00o\x00r\x00e\x00:\x00", "it is in UTF-16"},
	"UTF-16, high byte first":           {"\xfe\xff\x00s\x00p\x00o\x00r\x00e\x00:", "it is in UTF-16"},
	"bytes that are no UTF-8":           {"spore: {node: \"\xff\xfe\"}", "it is no YAML"},
	"what a terminal obeys":             {"\"\\e]0;x\\a\": x\nspore: {node: \"\\e[2J\"}", "is not a host name"},
	"a direction of writing":            {"spore: {node: \"edge\u202e10\"}", "is not a host name"},
	"letters that look like others":     {"spore: {node: \"\u0435dge-01\"}", "is not a host name"},
	"a bundle of 1 MiB":                 {full("spore: {bundle: ", "eHh4", "}"), ""},
	"a bundle that is no base64":        {"spore: {bundle: \"====\"}", "in base64"},
	"as many directives as fit":         {directives(60_000) + "---\nspore: {node: edge-01}\n", "it has %TAG more than 32 times"},
	"a directive":                       {"%TAG !a! b\n---\nspore: {}\n", ""},
	"a tag that makes an object":        {"spore: !!python/object/apply:os.system {node: edge-01}", ""},
}

func TestAHostileDocumentCostsLittle(t *testing.T) {
	for name, tc := range hostileDocuments {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(tc.text), MaxFile)
			f := within(t, func() Found { return together([]Found{parse("x", map[string][]byte{UserData: []byte(tc.text)})}) })
			if tc.problem == "" {
				require.Empty(t, f.Problem)
				return
			}
			require.Contains(t, f.Problem, tc.problem)
			require.Empty(t, f.Node)
			require.Nil(t, f.Bundle)
		})
	}
}

func TestHostileDocumentsInAllPlacesCostLittle(t *testing.T) {
	for _, name := range []string{MetaData, NetworkConfig} {
		for what, tc := range hostileDocuments {
			f := within(t, func() Found { return parse("x", map[string][]byte{name: []byte(tc.text)}) })
			require.Empty(t, f.Node, what)
			require.Nil(t, f.Network, what)
		}
	}
	keys := "version: 2\nethernets:\n ? " + strings.Repeat("k", mib/2) + "\n : dhcp4: true\n"
	for i := range 9000 {
		keys += fmt.Sprintf("   a%d: x\n", i)
	}
	f := within(t, func() Found { return parse("x", map[string][]byte{NetworkConfig: []byte(keys)}) })
	require.Contains(t, f.Problem, "is not a text of at most 64 ASCII characters", "the name of a card goes before each of its keys")
	within(t, func() Found { return parseSerial("ds=nocloud;" + strings.Repeat("h=\x1b[2J;x\x1b=;", 5000)) })
}

// recordAt is where the record with a name lies in the root directory of a disc.
func recordAt(t testing.TB, data []byte, name string) int {
	t.Helper()
	for at := rootOf(data); data[at] != 0; at += int(data[at]) {
		if bytes.Contains(data[at:at+int(data[at])], []byte(name)) {
			return at
		}
	}
	require.Fail(t, "no record "+name)
	return 0
}

// primaryAt is where the primary descriptor of a disc lies.
const primaryAt = 16 * 2048

func rootOf(data []byte) int { return int(binary.LittleEndian.Uint32(data[primaryAt+158:])) * 2048 }

// chosen are files of a volume that chooses a node where nothing is hostile about it.
var chosen = map[string]string{MetaData: "instance-id: i-1\n", UserData: "spore: {node: edge-01}\n" + strings.Repeat("# more than one cluster\n", 1000)}

func TestAHostileDiscCostsLittle(t *testing.T) {
	le := binary.LittleEndian
	// Joliet's records would do where Rock Ridge's do not.
	sound := made(t, chosen, func(dir, out string) []*exec.Cmd {
		return []*exec.Cmd{exec.Command("xorriso", "-as", "mkisofs", "-V", "cidata", "-R", "-o", out, dir)}
	})
	for name, tc := range map[string]struct {
		change  func(t *testing.T, b []byte)
		problem string
	}{
		"a file of 1 GiB by its record": {func(t *testing.T, b []byte) { le.PutUint32(b[recordAt(t, b, UserData)+10:], gib) }, "user-data has 1073741824 bytes, more than 1048576"},
		"a file of 4 GiB by its record": {func(t *testing.T, b []byte) { le.PutUint32(b[recordAt(t, b, UserData)+10:], 1<<32-1) }, "user-data has 4294967295 bytes"},
		"a file behind the end": {func(t *testing.T, b []byte) {
			r := b[recordAt(t, b, UserData):]
			le.PutUint32(r[2:], 1<<31)
			le.PutUint32(r[10:], mib)
		}, "it lies behind the end"},
		"a file of zeros in the sparse end": {func(t *testing.T, b []byte) {
			r := b[recordAt(t, b, UserData):]
			le.PutUint32(r[2:], gib/2048-mib/2048)
			le.PutUint32(r[10:], mib)
		}, "it is no text"},
		"a file that is its own directory": {func(t *testing.T, b []byte) { le.PutUint32(b[recordAt(t, b, UserData)+2:], uint32(rootOf(b)/2048)) }, "it is no text"},
		"a root directory of 1 GiB":        {func(_ *testing.T, b []byte) { le.PutUint32(b[primaryAt+166:], gib) }, "its root directory has 1073741824 bytes"},
		"a root directory in the sparse end": {func(_ *testing.T, b []byte) {
			le.PutUint32(b[primaryAt+158:], gib/2048-mib/2048)
			le.PutUint32(b[primaryAt+166:], mib)
		}, ""},
		"a million entries": {func(_ *testing.T, b []byte) {
			at := len(b) - mib
			for sector := at; sector < len(b); sector += 2048 {
				for i := 0; i+34 <= 2048; i += 34 {
					copy(b[sector+i:], []byte{34})
					b[sector+i+32], b[sector+i+33] = 1, 'A'
				}
			}
			le.PutUint32(b[primaryAt+158:], uint32(at/2048))
			le.PutUint32(b[primaryAt+166:], mib)
		}, "more than 4096 entries"},
		"a continuation that leads to itself": {func(t *testing.T, b []byte) {
			// The first field of the file becomes one that says to go on where it is itself.
			at := recordAt(t, b, UserData)
			field := at + bytes.Index(b[at:at+int(b[at])], []byte("PX"))
			copy(b[field:], "CE\x1c\x01")
			le.PutUint32(b[field+4:], uint32(field/2048))
			le.PutUint32(b[field+12:], uint32(field%2048))
			le.PutUint32(b[field+20:], 28)
			b[field+2] = 28
		}, "goes on in more than 8 places"},
		"a name that a terminal obeys": {func(t *testing.T, b []byte) {
			at := recordAt(t, b, UserData)
			copy(b[at+bytes.Index(b[at:], []byte(UserData)):], "\x1b[2Jxxxxx")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := append(bytes.Clone(sound), make([]byte, mib)...)
			tc.change(t, b)
			s := disks(t, map[string][]byte{"sr0": b})
			require.NoError(t, os.Truncate(filepath.Join(s.Dev, "sr0"), gib))
			f := within(t, func() Found { return Find(Options{Source: s, Volumes: true}) })
			require.Empty(t, f.Node)
			require.Equal(t, []string{"the volume /dev/sr0 (iso9660)"}, f.From, "it is said which volume it is")
			if tc.problem == "" {
				require.Empty(t, f.Problem)
				return
			}
			require.Contains(t, f.Problem, tc.problem)
		})
	}
}

// fat32 is a FAT32 on a device, so far as tests damage it.
type fat32 struct {
	t *testing.T
	*os.File
	table, tableSize, data, cluster int64
}

func openFAT32(t *testing.T, name string) fat32 {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	b := make([]byte, 512)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	le := binary.LittleEndian
	sector, reserved, size := int64(le.Uint16(b[11:])), int64(le.Uint16(b[14:])), int64(le.Uint32(b[36:]))
	require.EqualValues(t, 2, b[16])
	require.EqualValues(t, 2, le.Uint32(b[44:]), "the root begins with the first cluster")
	return fat32{t, f, reserved * sector, size * sector, (reserved + 2*size) * sector, int64(b[13]) * sector}
}

func (f fat32) write(at int64, b []byte) {
	_, err := f.WriteAt(b, at)
	require.NoError(f.t, err)
}

// next has a cluster lead to another.
func (f fat32) next(cluster, to uint32) {
	b := binary.LittleEndian.AppendUint32(nil, to)
	f.write(f.table+int64(cluster)*4, b)
	f.write(f.table+f.tableSize+int64(cluster)*4, b)
}

// entry is where the entry of a file of the root lies, by its short name.
func (f fat32) entry(short string) (at int64, first uint32) {
	b := make([]byte, f.cluster)
	_, err := f.ReadAt(b, f.data)
	require.NoError(f.t, err)
	i := bytes.Index(b, []byte(short))
	require.Positive(f.t, i)
	return f.data + int64(i), uint32(binary.LittleEndian.Uint16(b[i+20:]))<<16 | uint32(binary.LittleEndian.Uint16(b[i+26:]))
}

func TestAHostileFATCostsLittle(t *testing.T) {
	const last = 0x0fffffff
	size := func(f fat32, n uint32) {
		at, _ := f.entry("USER-D~1")
		f.write(at+28, binary.LittleEndian.AppendUint32(nil, n))
	}
	for name, tc := range map[string]struct {
		change  func(f fat32)
		problem string
	}{
		"nothing":                               {func(fat32) {}, ""},
		"a root directory that leads to itself": {func(f fat32) { f.next(2, 2) }, "a chain is longer than its file"},
		"a root directory that leads nowhere":   {func(f fat32) { f.next(2, 1) }, "a chain leads to cluster 1"},
		"a root directory of a million entries": {func(f fat32) {
			used := bytes.Repeat([]byte{0xe5}, int(f.cluster))
			f.write(f.data, used)
			for c := uint32(100); c < 100+8192; c++ { // 32 MiB
				f.write(f.data+int64(c-2)*f.cluster, used)
				f.next(c, c+1)
			}
			f.next(2, 100)
			f.next(100+8192, last)
		}, "a chain is longer than its file"},
		"a root directory of 1 MiB of parts of long names": {func(f fat32) {
			part := bytes.Repeat([]byte("x"), 32)
			part[0], part[11] = 1, 0x0f
			parts := bytes.Repeat(part, int(f.cluster)/len(part))
			label := make([]byte, f.cluster)
			_, err := f.ReadAt(label, f.data)
			require.NoError(f.t, err)
			n := uint32(mib / f.cluster)
			for c := uint32(100); c < 100+n-1; c++ {
				f.write(f.data+int64(c-2)*f.cluster, parts)
				f.next(c, c+1)
			}
			f.write(f.data, append(label[:32], parts[32:]...))
			f.next(2, 100)
			f.next(100+n-2, last)
		}, ""},
		"a file whose clusters go round": {func(f fat32) {
			_, first := f.entry("USER-D~1")
			f.next(first, first)
			size(f, MaxFile)
		}, "a chain is longer than its file"},
		"a file of 1 GiB by its entry":       {func(f fat32) { size(f, gib) }, "user-data has 1073741824 bytes, more than 1048576"},
		"a file that is longer than its row": {func(f fat32) { size(f, MaxFile) }, "its chain is shorter than the file"},
		"a file in the sparse end": {func(f fat32) {
			at, _ := f.entry("USER-D~1")
			f.write(at+20, []byte{3, 0})
			f.write(at+26, []byte{0, 0})
			size(f, 4096)
			f.next(3<<16, last)
		}, "it is no text"},
		"a file that is a directory": {func(f fat32) {
			at, _ := f.entry("USER-D~1")
			f.write(at+11, []byte{0x10})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := Source{Dev: t.TempDir(), Sys: disks(t, map[string][]byte{"vdb": nil}).Sys}
			device := filepath.Join(s.Dev, "vdb")
			text, err := exec.Command("mkfs.vfat", "-C", "-F", "32", "-n", "CIDATA", device, fmt.Sprint(gib>>10)).CombinedOutput()
			require.NoError(t, err, "%s\nrun make deps", text)
			for name, content := range chosen {
				file := filepath.Join(t.TempDir(), name)
				require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
				text, err := exec.Command("mcopy", "-i", device, file, "::"+name).CombinedOutput()
				require.NoError(t, err, "%s", text)
			}
			tc.change(openFAT32(t, device))
			f := within(t, func() Found { return Find(Options{Source: s, Volumes: true}) })
			require.Equal(t, []string{"the volume /dev/vdb (vfat)"}, f.From, "it is said which volume it is")
			require.Equal(t, name == "nothing", f.Node != "")
			if tc.problem == "" {
				require.Empty(t, f.Problem)
				return
			}
			require.Contains(t, f.Problem, tc.problem)
		})
	}
}

// TestAVolumeThatIsTornIsSaid has a write of the volume cut anywhere: what is there of it either says what the whole
// volume does, or that it is damaged, or has no label yet. It never chooses another node.
func TestAVolumeThatIsTornIsSaid(t *testing.T) {
	whole := disc(t, "cidata", chosen)
	said, tried := 0, 0
	for at := 0; at <= len(whole); at += 2048 {
		tried++
		torn := append(bytes.Clone(whole[:at]), make([]byte, len(whole)-at)...)
		f := Find(Options{Source: disks(t, map[string][]byte{"sr0": torn}), Volumes: true})
		require.Contains(t, []string{"", "edge-01"}, f.Node)
		if f.Problem != "" {
			said++
			require.Contains(t, f.Problem, "nothing was taken: the volume /dev/sr0 (iso9660)")
		}
	}
	require.Positive(t, said)
	faults.Tried(t, tried)
}

func TestAStickWithManyPartitionsHidesNoVolume(t *testing.T) {
	devices := map[string][]byte{"sda": nil, "sr0": disc(t, "cidata", chosen)}
	for i := range 255 {
		devices[fmt.Sprintf("sda%d", i+1)] = nil
	}
	require.Equal(t, "edge-01", Find(Options{Source: disks(t, devices), Volumes: true}).Node)
	for i := range maxDevices {
		devices[fmt.Sprintf("sdb%d", i+1)] = nil
	}
	devices["sdb"] = nil
	require.Contains(t, Find(Options{Source: disks(t, devices), Volumes: true}).Problem, "so no volume was looked for")
}

func TestAVolumeThatIsTakenAwayIsNone(t *testing.T) {
	s := disks(t, map[string][]byte{"sr0": disc(t, "cidata", chosen)})
	require.NoError(t, os.Remove(filepath.Join(s.Dev, "sr0")))
	require.Equal(t, Found{}, Find(Options{Source: s, Volumes: true}), "the kernel has its name still")
	s.Sys = fstest.MapFS{}
	require.Equal(t, Found{}, Find(Options{Source: s, Volumes: true}))
}
