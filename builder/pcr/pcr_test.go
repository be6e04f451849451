package pcr

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/uki"
	"spore/builder/uki/ukitest"
)

func options() uki.Options {
	return uki.Options{
		Stub: ukitest.Program(0, ".text", ".sbat"), Kernel: uki.Bytes(ukitest.Program(100000, ".text")), Initrd: uki.Bytes(bytes.Repeat([]byte("initrd"), 1000)),
		Cmdline: "roothash=abc ro", OSRelease: []byte("ID=spore\n"), Uname: "6.12.0-test", Microcode: []byte("070701 microcode"),
	}
}

var testKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, keySize) })

func signer(t testing.TB) *Signer {
	t.Helper()
	key, err := testKey()
	require.NoError(t, err)
	s, err := NewSigner(key)
	require.NoError(t, err)
	return s
}

// extended is what a TPM would hold after measuring some data, word for word from the specification.
func extended(data ...[]byte) Value {
	pcr := make([]byte, 32)
	for _, d := range data {
		event := sha256.Sum256(d)
		sum := sha256.Sum256(append(append([]byte(nil), pcr...), event[:]...))
		copy(pcr, sum[:])
	}
	return Value(pcr)
}

func TestTheValueIsThatOfTheSectionsInTheStubsOrder(t *testing.T) {
	o := options()
	out, err := uki.Build(o)
	require.NoError(t, err)
	got, err := Predict(bytes.NewReader(out))
	require.NoError(t, err)
	info, err := uki.Inspect(bytes.NewReader(out))
	require.NoError(t, err)
	linux := info.Sections[len(info.Sections)-1]
	require.Greater(t, linux.VirtualSize, linux.RawSize, "what the test is about")
	memory := make([]byte, linux.VirtualSize)
	copy(memory, o.Kernel.(uki.Bytes))
	require.Equal(t, extended(
		[]byte(".linux\x00"), memory,
		[]byte(".osrel\x00"), o.OSRelease,
		[]byte(".cmdline\x00"), []byte(o.Cmdline+"\x00"),
		[]byte(".initrd\x00"), o.Initrd.(uki.Bytes),
		[]byte(".ucode\x00"), o.Microcode,
		[]byte(".uname\x00"), []byte(o.Uname),
		[]byte(".sbat\x00"), bytes.Repeat([]byte("s"), 512),
	), got)
}

func TestEachPartButTheSignatureChangesTheValue(t *testing.T) {
	seen := map[Value]string{}
	for name, change := range map[string]func(*uki.Options){
		"nothing":      func(*uki.Options) {},
		"kernel":       func(o *uki.Options) { o.Kernel = uki.Bytes(ukitest.Program(200000, ".text")) },
		"initrd":       func(o *uki.Options) { o.Initrd.(uki.Bytes)[5]++ },
		"command line": func(o *uki.Options) { o.Cmdline += " quiet" },
		"os-release":   func(o *uki.Options) { o.OSRelease = nil },
		"microcode":    func(o *uki.Options) { o.Microcode = nil },
		"uname":        func(o *uki.Options) { o.Uname += "1" },
		"key":          func(o *uki.Options) { o.PCRPublicKey = []byte("key") },
	} {
		o := options()
		change(&o)
		out, err := uki.Build(o)
		require.NoError(t, err)
		v, err := Predict(bytes.NewReader(out))
		require.NoError(t, err)
		require.Empty(t, seen[v], name)
		seen[v] = name
		o.PCRSignature = []byte("{}")
		out, err = uki.Build(o)
		require.NoError(t, err)
		again, err := Predict(bytes.NewReader(out))
		require.NoError(t, err)
		require.Equal(t, v, again, "a signature cannot cover itself")
	}
}

func TestPhases(t *testing.T) {
	var v Value
	require.Equal(t, v, v.Enter(""))
	require.Equal(t, extended([]byte("enter-initrd"), []byte("leave-initrd")), v.Enter("enter-initrd:leave-initrd"))
	require.Equal(t, v.Enter("a:b"), v.Enter(":a::b:"))
	require.NotEqual(t, v.Enter("a:b"), v.Enter("b:a"))
}

func TestAnImageCarriesItsSignature(t *testing.T) {
	out, err := Build(options(), signer(t))
	require.NoError(t, err)
	again, err := Build(options(), signer(t))
	require.NoError(t, err)
	require.Equal(t, out, again)
	v, err := Predict(bytes.NewReader(out))
	require.NoError(t, err)
	list, err := ReadSignatures(bytes.NewReader(out))
	require.NoError(t, err)
	require.Len(t, list, len(Phases))
	key, err := signer(t).PublicKey()
	require.NoError(t, err)
	require.NoError(t, Check(list, v, key))
	require.Contains(t, string(out), string(key))

	require.ErrorContains(t, Check(list, v.Enter("shutdown"), key), "there is no signature for PCR 11")
	list[0].Signature[3] ^= 1
	require.ErrorContains(t, Check(list, v, key), "not made by the key")
	other, err := rsa.GenerateKey(rand.Reader, keySize)
	require.NoError(t, err)
	theirs, err := (&Signer{other}).PublicKey()
	require.NoError(t, err)
	require.ErrorContains(t, Check(list, v, theirs), "there is no signature for PCR 11")
	require.ErrorContains(t, Check(list, v, []byte("x")), "not PEM")
}

func TestWithoutAKeyNothingIsSigned(t *testing.T) {
	out, err := Build(options(), nil)
	require.NoError(t, err)
	plain, err := uki.Build(options())
	require.NoError(t, err)
	require.Equal(t, plain, out)
	list, err := ReadSignatures(bytes.NewReader(out))
	require.NoError(t, err)
	require.Empty(t, list)
	large, err := rsa.GenerateKey(rand.Reader, 3072)
	require.NoError(t, err)
	_, err = NewSigner(large)
	require.ErrorContains(t, err, "a TPM takes 2048")
}

// zeroPolicy is what tpm2_policypcr -l sha256:11 of an emulated TPM (swtpm 0.7) printed in a trial session, while the
// register held zero.
const zeroPolicy = "fd32fa22c52cfc8e1a0c29eb38519f87084cab0b04b0d8f020a4d38b2f4e223e"

func TestPolicyDigest(t *testing.T) {
	require.Equal(t, zeroPolicy, hex.EncodeToString(policyDigest(Value{})))
}

func TestImagesWhoseMeasurementIsNotKnownAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		image []byte
		err   string
	}{
		"no image":               {[]byte("x"), "not a PE file"},
		"another program":        {ukitest.Program(0, ".text"), "no .linux section"},
		"two of one name":        {ukitest.Program(0, ".linux", ".osrelx", ".dtb", ".dtb"), "two sections .dtb"},
		"profiles":               {ukitest.Program(0, ".linux", ".profile"), "in an unknown way"},
		"a section that is away": {ukitest.Program(0, ".dtb", ".linux")[:2100], "of its 512 bytes"},
	} {
		_, err := Predict(bytes.NewReader(c.image))
		require.ErrorContains(t, err, c.err, name)
	}
}

// systemd-measure is a second opinion on values. That of Debian 12 knows fewer sections, and takes a kernel to be as large
// in memory as in its file.
func TestSystemdMeasureSaysTheSame(t *testing.T) {
	const program = "/lib/systemd/systemd-measure"
	if _, err := os.Stat(program); err != nil {
		t.Skip("there is no systemd-measure on this machine")
	}
	o := options()
	o.Stub, o.Uname, o.Microcode = ukitest.Program(0, ".text"), "", nil
	o.Kernel = uki.Bytes(append(ukitest.Program(0, ".text"), make([]byte, 8192-2560)...))
	var err error
	o.PCRPublicKey, err = signer(t).PublicKey()
	require.NoError(t, err)
	out, err := uki.Build(o)
	require.NoError(t, err)
	v, err := Predict(bytes.NewReader(out))
	require.NoError(t, err)
	args := []string{"calculate", "--bank=sha256", "--phase=enter-initrd", "--phase=enter-initrd:leave-initrd:sysinit"}
	for name, data := range map[string][]byte{
		"linux": o.Kernel.(uki.Bytes), "osrel": o.OSRelease, "cmdline": append([]byte(o.Cmdline), 0), "initrd": o.Initrd.(uki.Bytes), "pcrpkey": o.PCRPublicKey,
	} {
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, data, 0o600))
		args = append(args, "--"+name+"="+file)
	}
	text, err := exec.Command(program, args...).Output()
	require.NoError(t, err)
	for _, path := range []string{"enter-initrd", "enter-initrd:leave-initrd:sysinit"} {
		require.Contains(t, strings.Fields(string(text)), "11:sha256="+v.Enter(path).String(), path)
	}
}

func FuzzPredict(f *testing.F) {
	out, err := Build(options(), signer(f))
	require.NoError(f, err)
	f.Add(out)
	f.Add(ukitest.Program(0, ".linux", ".pcrsig", ".sbat"))
	f.Add([]byte("MZ"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// What a section claims to be in memory costs only time; keep that short.
		if info, err := uki.Inspect(bytes.NewReader(data)); err != nil || tooLarge(info) {
			return
		}
		v, err := Predict(bytes.NewReader(data))
		again, err2 := Predict(bytes.NewReader(data))
		require.Equal(t, err == nil, err2 == nil)
		require.Equal(t, v, again)
		_, _ = ReadSignatures(bytes.NewReader(data))
	})
}

func tooLarge(info *uki.Info) bool {
	for _, s := range info.Sections {
		if s.VirtualSize > 1<<20 {
			return true
		}
	}
	return false
}
