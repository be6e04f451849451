package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/stage1/machineid"
	"spore/storage/espfiles"
	"spore/storage/fat"
)

func TestNodeNamesOfTheESPAreChecked(t *testing.T) {
	for text, want := range map[string]string{"edge-01": "edge-01", " edge-01\r\n": "edge-01", "a": "a", strings.Repeat("a", 63): strings.Repeat("a", 63), "1-2": "1-2"} {
		got, err := nodeName([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "\n", "-a", "a-", "Edge", "a.b", "a b", "a/../b", "a\x00", "ä", strings.Repeat("a", 64)} {
		_, err := nodeName([]byte(text))
		require.Error(t, err, "%q", text)
	}
}

// espWith is an ESP with files.
func espWith(t *testing.T, files map[string]string) *fat.FS {
	t.Helper()
	var list []fat.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list = append(list, fat.File{Path: name, Size: int64(len(files[name])), Content: strings.NewReader(files[name])})
	}
	image, err := fat.New(fat.Options{Size: 64 << 20, Files: list})
	require.NoError(t, err)
	fsys, err := fat.Open(image, image.Size())
	require.NoError(t, err)
	return fsys
}

func TestTheBundleOfTheESPIsHandedOverAsItIs(t *testing.T) {
	to := filepath.Join(t.TempDir(), "run", "delivered", "bundle")
	bundleTo := func(fsys *fat.FS) (string, error) {
		return handOver(fsys, espfiles.Bundle, "a bundle", bootinfo.MaxDelivered, to)
	}
	for name, files := range map[string]map[string]string{
		"an empty ESP":            nil,
		"a folder without it":     {"/spore/other": "x"},
		"where the stub looks":    {"/loader/credentials/spore.bundle.cred": "whatever"},
		"the path is a file":      {"/spore": "x"},
		"the bundle is a folder":  {"/spore/bundle/x": "x"},
		"more than any bundle is": {"/spore/bundle": strings.Repeat("x", bootinfo.MaxDelivered+1)},
	} {
		text, err := bundleTo(espWith(t, files))
		require.NoError(t, err, "no stick can stop the boot: %s", name)
		require.NoFileExists(t, to, name)
		require.Equal(t, name == "more than any bundle is" || name == "the bundle is a folder", strings.HasPrefix(text, "ignored"), "%s: %s", name, text)
	}
	text, err := bundleTo(espWith(t, map[string]string{"/SPORE/Bundle": "whatever"}))
	require.NoError(t, err)
	require.Contains(t, text, "not authenticated")
	data, err := os.ReadFile(to)
	require.NoError(t, err)
	require.Equal(t, "whatever", string(data))
	for path, mode := range map[string]fs.FileMode{to: 0o600, filepath.Dir(to): 0o700} {
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode().Perm())
	}
}

func TestTheAnswerFileOfTheESPIsHandedOverAsItIs(t *testing.T) {
	to := filepath.Join(t.TempDir(), "run", "delivered", "answers")
	take := func(files map[string]string) (string, error) {
		return handOver(espWith(t, files), espfiles.Answers, "an answer file", bootinfo.MaxAnswers, to)
	}
	text, err := take(map[string]string{"/spore/answers": strings.Repeat("x", bootinfo.MaxAnswers+1)})
	require.NoError(t, err)
	require.Contains(t, text, "ignored an answer file of the ESP: ")
	require.NoFileExists(t, to)
	text, err = take(map[string]string{"/spore/answers": "node: edge-01\n"})
	require.NoError(t, err)
	require.Equal(t, "the ESP has an answer file (not authenticated)", text)
	data, err := os.ReadFile(to)
	require.NoError(t, err)
	require.Equal(t, "node: edge-01\n", string(data))
}

func TestTheESPChoosesANode(t *testing.T) {
	for name, c := range map[string]struct {
		files      map[string]string
		node, text string
	}{
		"no choice":            {nil, "", ""},
		"where the stub looks": {map[string]string{"/loader/credentials/spore.node.cred": "edge-01"}, "", ""},
		"a node":               {map[string]string{"/spore/node": "edge-01\r\n"}, "edge-01", "the ESP chooses node edge-01"},
		"no name":              {map[string]string{"/spore/node": "../edge"}, "", "ignored the node choice"},
		"far more than a name": {map[string]string{"/spore/node": strings.Repeat(" ", 300)}, "", "ignored the node choice"},
	} {
		var b boot
		text, err := b.readESPChoice(espWith(t, c.files))
		require.NoError(t, err, name)
		require.Equal(t, c.node, b.info.ESPNode, name)
		require.Contains(t, text, c.text, name)
	}
}

func TestUnderSecureBootNobodyAddsWords(t *testing.T) {
	for name, c := range map[string]struct {
		efi, secure bool
		outside     []string
		refused     bool
	}{
		"Secure Boot, and the image's words alone": {true, true, nil, false},
		"Secure Boot, and words from outside":      {true, true, []string{"spore.console", "module_blacklist=efivarfs"}, true},
		"no Secure Boot":                           {true, false, []string{"spore.console"}, false},
		"a BIOS":                                   {false, false, []string{"spore.loader=x"}, false},
	} {
		b := boot{}
		b.info.EFI, b.firmware.SecureBoot, b.args.Outside = c.efi, c.secure, c.outside
		_, err := b.refuseWords()
		require.Equal(t, c.refused, err != nil, name)
		if err != nil {
			require.ErrorContains(t, err, `words that are not the image's are refused: "spore.console module_blacklist=efivarfs"`)
		}
	}
}

func TestTheClusterIDIsRead(t *testing.T) {
	part := func(text string) fs.FS {
		return fstest.MapFS{"compiled/cluster.json": {Data: []byte(text)}}
	}
	id, err := readClusterID(part(`{"name":"lab","id":"0D9C8B7A-1111-4222-8333-444455556666","members":{"x":["y"]}}`))
	require.NoError(t, err)
	require.Equal(t, "0d9c8b7a-1111-4222-8333-444455556666", id)
	for text, message := range map[string]string{"": "EOF", "{}": "has no cluster id", `{"id":7}`: "cannot unmarshal", "[": "unexpected EOF"} {
		_, err := readClusterID(part(text))
		require.ErrorContains(t, err, message)
	}
	_, err = readClusterID(fstest.MapFS{})
	require.ErrorContains(t, err, "cluster part: open compiled/cluster.json")
}

// cards is a fake /sys with network cards of several kinds.
var cards = fstest.MapFS{
	"class/net/eth0": link("../../devices/pci0000:00/0000:00:03.0/net/eth0"), "devices/pci0000:00/0000:00:03.0/net/eth0/address": file("52:54:00:00:00:01\n"),
	"devices/pci0000:00/0000:00:03.0/net/eth0/type": file("1\n"), "devices/pci0000:00/0000:00:03.0/net/eth0/addr_assign_type": file("0\n"), "devices/pci0000:00/0000:00:03.0/net/eth0/device/vendor": file("0x8086\n"),
	"class/net/eth1/address": file("52:54:00:00:00:02\n"), "class/net/eth1/type": file("1\n"), "class/net/eth1/addr_assign_type": file("1\n"), "class/net/eth1/device/vendor": file("0x1af4\n"),
	"class/net/lo/address": file("00:00:00:00:00:00\n"), "class/net/lo/type": file("772\n"), "class/net/lo/addr_assign_type": file("0\n"),
	"class/net/br0/address": file("52:54:00:00:00:03\n"), "class/net/br0/type": file("1\n"), "class/net/br0/addr_assign_type": file("0\n"),
	"class/net/ib0/address": file("80:00:02:08\n"), "class/net/ib0/type": file("32\n"), "class/net/ib0/addr_assign_type": file("0\n"), "class/net/ib0/device/vendor": file("0x15b3\n"),
	"class/net/usb0": link("../../devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/net/usb0"), "devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/net/usb0/address": file("00:e0:4c:00:00:01\n"),
	"devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/net/usb0/type": file("1\n"), "devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/net/usb0/addr_assign_type": file("0\n"),
	"devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/net/usb0/device/x": file("1"),
	"bus/pci/devices/0000:00:03.0/class":                                 file("0x020000\n"), "bus/pci/devices/0000:00:03.0/modalias": file("pci:v00008086d000010D3\n"),
	"bus/pci/devices/0000:00:1f.2/class": file("0x010601\n"), "bus/pci/devices/0000:00:1f.2/modalias": file("pci:v00008086d00002922\n"),
	"bus/virtio/devices/virtio0/device": file("0x0001\n"), "bus/virtio/devices/virtio0/modalias": file("virtio:d00000001v00001AF4\n"),
	"bus/virtio/devices/virtio1/device": file("0x0002\n"), "bus/virtio/devices/virtio1/modalias": file("virtio:d00000002v00001AF4\n"),
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func link(to string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink}
}

func TestOnlyPermanentAddressesOfEthernetCardsCount(t *testing.T) {
	require.Equal(t, []machineid.NIC{{MAC: "52:54:00:00:00:01"}, {MAC: "00:e0:4c:00:00:01", USB: true}}, physicalNICs(cards))
	require.Empty(t, physicalNICs(fstest.MapFS{}))
}

func TestOnlyDriversOfNetworkCardsAreLoadedForAddresses(t *testing.T) {
	require.Equal(t, []string{"pci:v00008086d000010D3", "virtio:d00000001v00001AF4"}, networkModaliases(cards))
}

func TestAFailedStepEndsTheRecipeAndIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kmsg")
	kmsg, err := os.Create(path)
	require.NoError(t, err)
	b := &boot{kmsg: kmsg}
	var done []string
	err = b.run([]step{
		{"walk", func() (string, error) { done = append(done, "walk"); return "walked", nil }},
		{"say nothing", func() (string, error) { return "", nil }},
		{"fall", func() (string, error) { return "", errors.New("a stone") }},
		{"stand up", func() (string, error) { done = append(done, "stand up"); return "", nil }},
	})
	require.EqualError(t, err, "cannot fall: a stone")
	require.Equal(t, []string{"walk"}, done)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `^<5>spore stage1: \[ *\d+\.\d{3}\] walked\n$`, string(text))
}

func TestLongAndSeveralLinesAreSplit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kmsg")
	kmsg, err := os.Create(path)
	require.NoError(t, err)
	b := &boot{kmsg: kmsg}
	b.say(failure, "%s\n  second\n", strings.Repeat("x", 2000))
	b.say(notice, "")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 4)
	for _, l := range lines {
		require.Less(t, len(l), 960)
		require.True(t, strings.HasPrefix(l, "<3>spore stage1: ["), l)
	}
	require.True(t, strings.HasSuffix(lines[3], "]   second"))
}

func TestItIsStaticSmallAndNothingElsewhere(t *testing.T) {
	program := filepath.Join(t.TempDir(), "init")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	st, err := os.Stat(program)
	require.NoError(t, err)
	require.Less(t, st.Size(), int64(4<<20), "the initramfs is read by firmware, at worst over a slow virtual medium")
	deps, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	for _, unwanted := range []string{"\nnet/http\n", "\ncrypto/tls\n", "\nos/exec\n"} {
		require.NotContains(t, string(deps), unwanted, "stage1 speaks no TLS and starts no program")
	}
	out, err = exec.Command(program).CombinedOutput()
	require.Error(t, err, "it is no init here")
	require.Contains(t, string(out), "does nothing elsewhere")
}
