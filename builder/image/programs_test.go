package image

import (
	"crypto/rand"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/secureboot"
	"spore/builder/vm"
	"spore/pki/authenticode"
)

// programs are those of an image, by path.
func programs(t *testing.T, disk string) map[string]Program {
	t.Helper()
	info, err := inspect(t, disk)
	require.NoError(t, err)
	f, err := os.Open(disk)
	require.NoError(t, err)
	defer f.Close()
	list, err := info.Programs(f)
	require.NoError(t, err)
	out := map[string]Program{}
	for _, p := range list {
		out[p.Path] = p
	}
	require.Len(t, out, 3)
	return out
}

func TestProgramsOfASignedImage(t *testing.T) {
	keys, err := secureboot.Generate(rand.Reader, secureboot.Options{Name: "plant", Now: time.Unix(1_800_000_000, 0)})
	require.NoError(t, err)
	o := options(t)
	plain := programs(t, build(t, func() Options { o := o; o.SystemdBoot = fakePE(t, "loader"); return o }()))
	require.Empty(t, plain[bootPath].Signatures)
	require.Empty(t, plain[UKIPath(o.UKI)].Signatures)

	o.UKI, err = keys.DB.SignPE(o.UKI)
	require.NoError(t, err)
	o.SystemdBoot, err = keys.DB.SignPE(fakePE(t, "loader"))
	require.NoError(t, err)
	disk := build(t, o)
	for path, p := range programs(t, disk) {
		require.Empty(t, p.Problem, path)
		require.Len(t, p.Signatures, 1, path)
		require.Empty(t, p.Signatures[0].Problem, path)
		require.Equal(t, authenticode.Fingerprint(keys.DB.Certificate), p.Signatures[0].Fingerprint)
	}
	before := programs(t, disk)[UKIPath(o.UKI)]
	require.NotNil(t, before.PCR11)
	require.Empty(t, before.PCRSignatures)

	flipOnESP(t, disk, o.UKI, 600)
	after := programs(t, disk)[UKIPath(o.UKI)]
	require.Equal(t, "the program was changed after it was signed", after.Signatures[0].Problem)
	require.NotEqual(t, before.PCR11, after.PCR11)
}

func TestAProgramThatCannotBeReadIsAProblemOfItsOwn(t *testing.T) {
	p := programs(t, build(t, options(t)))
	require.Contains(t, p[bootPath].Problem, "not a PE file")
	for path, p := range p {
		require.Equal(t, path == bootPath || path == systemdBootPath, p.Problem != "", path)
	}
}

// flipOnESP changes one byte of a file, which lies in one piece.
func flipOnESP(t *testing.T, disk string, file []byte, off int64) {
	t.Helper()
	data, err := os.ReadFile(disk)
	require.NoError(t, err)
	for at := 0; at+len(file) <= len(data); at += sectorSize {
		if string(data[at:at+len(file)]) == string(file) {
			require.NoError(t, vm.Flip(disk, int64(at)+off))
			return
		}
	}
	t.Fatal("the file is not on the disk")
}
