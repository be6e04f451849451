package image

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/espfiles"
)

// espOf opens the ESP of a disk image.
func espOf(t testing.TB, name string) *io.SectionReader {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	info, err := inspect(t, name)
	require.NoError(t, err)
	p := info.ESP()
	return io.NewSectionReader(f, p.Offset, p.Size)
}

func TestWhatIsWrittenToTheESPIsReadAgain(t *testing.T) {
	o := options(t)
	o.Enroll = enrolment("force")
	o.Files = map[string][]byte{"/spore/bundle": []byte("sealed"), "/empty": {}}
	r := espOf(t, build(t, o))
	esp, err := ReadESP(r, r.Size())
	require.NoError(t, err)
	require.Equal(t, o.UKI, esp.UKI)
	require.Equal(t, o.SystemdBoot, esp.Loader)
	require.Equal(t, o.Enroll, esp.Enroll)
	require.Equal(t, map[string][]byte{espfiles.Node: []byte("edge-01"), "/spore/bundle": []byte("sealed"), "/empty": {}}, esp.Files)

	// Further files do not stand in for our own.
	o.Files = map[string][]byte{bootPath: []byte("another"), loaderPath: []byte("editor yes\n")}
	r = espOf(t, build(t, o))
	esp, err = ReadESP(r, r.Size())
	require.NoError(t, err)
	require.Equal(t, o.SystemdBoot, esp.Loader)
}

func TestAnESPThatIsNotAsItWasWritten(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		err    string
	}{
		"two UKIs":           {func(o *Options) { o.Files = map[string][]byte{"/EFI/Linux/a.EFI": {1}} }, "more than one unified kernel image"},
		"a large file":       {func(o *Options) { o.Files = map[string][]byte{"/large": make([]byte, maxOthers+1)} }, "/large has 16777217 bytes, which is too much"},
		"a large loader":     {func(o *Options) { o.SystemdBoot = make([]byte, maxLoader+1) }, "which is too much"},
		"many smaller files": {func(o *Options) { o.Files = map[string][]byte{"/a": make([]byte, 9<<20), "/b": make([]byte, 9<<20)} }, "/b has 9437184 bytes, which is too much"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			o.Slots.ESP = 128
			c.change(&o)
			r := espOf(t, build(t, o))
			_, err := ReadESP(r, r.Size())
			require.ErrorContains(t, err, "read the ESP: ")
			require.ErrorContains(t, err, c.err)
		})
	}
	_, err := ReadESP(bytes.NewReader(make([]byte, 4096)), 4096)
	require.ErrorContains(t, err, "not a sound FAT32 filesystem")
}

func TestTheLayoutIsComparedWithTheSizesOfImageYAML(t *testing.T) {
	o := options(t)
	info, err := inspect(t, build(t, o))
	require.NoError(t, err)
	require.True(t, info.HasSlots(o.Slots))
	require.False(t, info.HasSlots(Slots{}))
	require.False(t, info.HasSlots(Slots{ESP: -1}))
	other := o.Slots
	other.Cluster = 2
	require.False(t, info.HasSlots(other))
}

func TestTheKernelOfAnISOHasItsOwnLength(t *testing.T) {
	o := isoOptions(t)
	name := buildISO(t, o)
	info, err := inspect(t, name)
	require.NoError(t, err)
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	kernel, err := info.ReadKernel(f)
	require.NoError(t, err)
	require.Equal(t, o.Kernel, kernel)
	info.ISO = nil
	_, err = info.ReadKernel(f)
	require.ErrorContains(t, err, "the image is not an ISO")
}

func FuzzReadESP(f *testing.F) {
	r := espOf(f, build(f, options(f)))
	base := make([]byte, 128<<10)
	if _, err := r.ReadAt(base, 0); err != nil {
		f.Fatal(err)
	}
	f.Add(base[:512], int64(0))
	f.Add([]byte{0xff, 0xff, 0xff, 0x0f}, int64(32*512+8))
	f.Fuzz(func(t *testing.T, change []byte, off int64) {
		_, _ = ReadESP(&patched{base: bytes.NewReader(base), change: change, off: off}, 64*mib)
	})
}
