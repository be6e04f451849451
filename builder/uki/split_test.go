package uki

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsTakenApartIsMadeAgain(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"all parts":          func(*Options) {},
		"no microcode":       func(o *Options) { o.Microcode = nil },
		"a PCR signature":    func(o *Options) { o.PCRPublicKey, o.PCRSignature = []byte("key"), []byte("{}") },
		"the least":          func(o *Options) { o.Microcode, o.OSRelease, o.Uname, o.Initrd = nil, nil, "", Bytes(nil) },
		"a kernel that fits": func(o *Options) { o.Kernel = o.Kernel.(Bytes)[:7*1024] },
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			change(&o)
			image, err := Build(o)
			require.NoError(t, err)
			parts, err := Split(image)
			require.NoError(t, err)
			require.Equal(t, o.Cmdline, parts.Cmdline)
			require.Equal(t, o.Uname, parts.Uname)
			require.Equal(t, o.Initrd, parts.Initrd)
			require.True(t, bytes.HasPrefix(parts.Kernel.(Bytes), o.Kernel.(Bytes)))
			again, err := Build(parts)
			require.NoError(t, err)
			require.Equal(t, image, again)

			parts.Cmdline = "another"
			o.Cmdline = "another"
			want, err := Build(o)
			require.NoError(t, err)
			got, err := Build(parts)
			require.NoError(t, err)
			require.Equal(t, want, got, "another command line is the only difference")
		})
	}
}

func TestWhatCannotBeTakenApart(t *testing.T) {
	image, err := Build(options())
	require.NoError(t, err)
	const opt = testNewHeader + 4 + coffHeaderSize
	row := func(i int) int { return opt + testOptSize + i*sectionSize }
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		err    string
	}{
		"text":           {func([]byte) []byte { return []byte("text") }, "it is not a PE file"},
		"a stub":         {func([]byte) []byte { return stub() }, "it has no stub, or only a stub"},
		"no stub":        {func([]byte) []byte { return makePE(1024, 4096, Section{".linux", 0x1000, 512, 1024, 512, 0}) }, "it has no stub"},
		"a signed image": {func(b []byte) []byte { binary.LittleEndian.PutUint32(b[opt+optDirectories+4+4*8+4:], 100); return b }, "it is signed"},
		"another section": {func(b []byte) []byte { copy(b[row(4):], ".splash\x00"); return b },
			"its section .splash is unknown"},
		"a section twice": {func(b []byte) []byte { copy(b[row(4):], ".osrel\x00\x00"); return b }, "its section .osrel is unknown, or appears twice"},
		"a short file":    {func(b []byte) []byte { return b[:len(b)-512] }, "it ends before its section .linux does"},
		"a short stub": {func(b []byte) []byte { binary.LittleEndian.PutUint32(b[row(2)+16:], 1<<30); return b },
			"its stub is not whole"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Split(c.change(bytes.Clone(image)))
			require.ErrorContains(t, err, "take unified kernel image apart: ")
			require.ErrorContains(t, err, c.err)
		})
	}
}

func FuzzSplit(f *testing.F) {
	image, err := Build(options())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(image)
	f.Add(stub())
	f.Fuzz(func(t *testing.T, data []byte) {
		parts, err := Split(data)
		if err != nil {
			return
		}
		// Headers may lie about what does not matter here, and Build may refuse them; it must not fail otherwise.
		_, _ = Build(parts)
	})
}
