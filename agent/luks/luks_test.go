package luks

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const key = "cbdefghi-a-key-of-the-test"

// volume makes a LUKS2 volume in a file with cryptsetup, which `make deps` installs, with a second key that a TPM's token opens.
func volume(t *testing.T) *os.File {
	t.Helper()
	dir := t.TempDir()
	path, first, second, token := filepath.Join(dir, "volume"), filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 24<<20))
	require.NoError(t, os.WriteFile(first, []byte(key), 0o600))
	require.NoError(t, os.WriteFile(second, []byte("another"), 0o600))
	require.NoError(t, os.WriteFile(token, []byte(`{"type":"systemd-tpm2","keyslots":["2"],"tpm2-blob":"AAAA","tpm2-pcrs":[7,12],"tpm2-pin":true,"tpm2-policy-hash":"`+strings.Repeat("AB", 32)+`","tpm2_pubkey_pcrs":[11],"tpm2_pubkey":"`+
		base64.StdEncoding.EncodeToString([]byte("PEM"))+`"}`), 0o600))
	fast := []string{"--batch-mode", "--disable-locks", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"}
	cryptsetup(t, append([]string{"luksFormat", "--type", "luks2", "--key-file", first, path}, fast...)...)
	cryptsetup(t, append([]string{"luksAddKey", "--key-file", first, "--new-key-slot", "2", path, second}, fast...)...)
	cryptsetup(t, "token", "import", "--disable-locks", "--json-file", token, path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func cryptsetup(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("cryptsetup", args...).CombinedOutput()
	if len(args) > 1 && strings.Contains(string(out), "Unknown option") { // That of Debian 12 calls it so.
		for i, a := range args {
			if a == "--new-key-slot" {
				args[i] = "--key-slot"
			}
		}
		out, err = exec.Command("cryptsetup", args...).CombinedOutput()
	}
	require.NoError(t, err, "cryptsetup %v (run make deps when it is missing): %s", args, out)
}

// opens tells whether the test's key opens a volume.
func opens(f *os.File) bool {
	cmd := exec.Command("cryptsetup", "open", "--test-passphrase", "--disable-locks", "--key-file", "-", f.Name())
	cmd.Stdin = strings.NewReader(key)
	return cmd.Run() == nil
}

var whole = Header{Slots: []int{0, 2}, Tokens: []Token{{Type: TokenTPM, Slots: []int{2}, PublicKey: []byte("PEM"), Policy: strings.Repeat("ab", 32), PIN: true, PCRs: []int{7, 12}}}, Data: 16 << 20}

func TestReadTellsWhatCryptsetupMade(t *testing.T) {
	f := volume(t)
	h, err := Read(f)
	require.NoError(t, err)
	require.Equal(t, whole, h)
	require.Equal(t, []int{0}, h.Plain(), "no token opens it")
	tpm, ok := h.Token(TokenTPM)
	require.True(t, ok)
	require.Equal(t, []int{2}, tpm.Slots)
	_, ok = h.Token("systemd-fido2")
	require.False(t, ok)
}

func TestReadTakesTheCopyThatIsWhole(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(t *testing.T, f *os.File)
		err    string
	}{
		"the first copy has another byte": {flip(5000), ""},
		"the first copy is gone":          {zero(0, 16<<10), ""},
		"the second copy is gone":         {zero(16<<10, 16<<10), ""},
		"both have another byte":          {func(t *testing.T, f *os.File) { flip(5000)(t, f); flip(21000)(t, f) }, "the LUKS header is damaged: its checksum is wrong"},
		"both are gone":                   {zero(0, 32<<10), ErrNone.Error()},
		"the second is a copy of the first": {func(t *testing.T, f *os.File) {
			b := make([]byte, 16<<10)
			_, err := f.ReadAt(b, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(b, 16<<10)
			require.NoError(t, err)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := volume(t)
			tc.damage(t, f)
			h, err := Read(f)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, whole, h)
		})
	}
}

func flip(at int64) func(*testing.T, *os.File) {
	return func(t *testing.T, f *os.File) {
		b := make([]byte, 1)
		_, err := f.ReadAt(b, at)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{b[0] ^ 1}, at)
		require.NoError(t, err)
	}
}

func zero(at, n int64) func(*testing.T, *os.File) {
	return func(t *testing.T, f *os.File) {
		_, err := f.WriteAt(make([]byte, n), at)
		require.NoError(t, err)
	}
}

func TestWhatIsNoLUKSIsTold(t *testing.T) {
	_, err := Read(bytes.NewReader(make([]byte, 1<<20)))
	require.ErrorIs(t, err, ErrNone)
	_, err = Read(bytes.NewReader([]byte("LU")))
	require.ErrorIs(t, err, io.EOF)
	_, err = Read(strings.NewReader("LUKS\xba\xbe\x00\x01" + strings.Repeat("\x00", 8192)))
	require.ErrorContains(t, err, "its version is 1, not 2")
}

func TestDamagedTextIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":          `{`,
		"a slot's name":    `{"keyslots":{"zero":{}},"segments":{"0":{"offset":"16777216"}}}`,
		"a token's name":   `{"tokens":{"01":{}},"segments":{"0":{"offset":"16777216"}}}`,
		"a token's slot":   `{"tokens":{"0":{"keyslots":["-1"]}},"segments":{"0":{"offset":"16777216"}}}`,
		"no data":          `{"keyslots":{"0":{}}}`,
		"data in the keys": `{"segments":{"0":{"offset":"512"}}}`,
		"a public key":     `{"tokens":{"0":{"tpm2_pubkey":"???"}},"segments":{"0":{"offset":"16777216"}}}`,
	} {
		_, err := parse([]byte(text))
		require.ErrorContains(t, err, "damaged", name)
	}
}

func TestWhatIsDestroyedOpensNoMore(t *testing.T) {
	f := volume(t)
	data := bytes.Repeat([]byte("data"), 1024)
	_, err := f.WriteAt(data, 16<<20)
	require.NoError(t, err)
	require.True(t, opens(f))
	require.NoError(t, Destroy(f, 24<<20))
	require.False(t, opens(f))
	_, err = Read(f)
	require.ErrorIs(t, err, ErrNone)
	left := make([]byte, 16<<20)
	_, err = f.ReadAt(left, 0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(make([]byte, len(left)), left), "neither copy and no slot is left")
	behind := make([]byte, len(data))
	_, err = f.ReadAt(behind, 16<<20)
	require.NoError(t, err)
	require.Equal(t, data, behind)
}

func TestAVolumeWithADamagedHeaderIsDestroyedToo(t *testing.T) {
	f := volume(t)
	flip(5000)(t, f)
	flip(21000)(t, f)
	require.NoError(t, Destroy(f, 24<<20))
	_, err := Read(f)
	require.ErrorIs(t, err, ErrNone)
}

type broken struct{ *bytes.Reader }

func (broken) WriteAt([]byte, int64) (int, error) { return 0, errors.New("the disk is gone") }
func (broken) Sync() error                        { return nil }

func TestADiskThatCannotBeWrittenIsSaid(t *testing.T) {
	require.ErrorContains(t, Destroy(broken{bytes.NewReader(make([]byte, 4096))}, 4096), "overwrite the key slots: the disk is gone")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("LUKS\xba\xbe\x00\x02\x00\x00\x00\x00\x00\x00\x40\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := Read(bytes.NewReader(data))
		require.Error(t, err, "nobody finds a checksum by chance")
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"keyslots":{"0":{}},"tokens":{"0":{"type":"systemd-tpm2","keyslots":["1"],"tpm2_pubkey":"UEVN"}},"segments":{"0":{"offset":"16777216"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := parse(text)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, h.Data, int64(minHeader))
		require.LessOrEqual(t, len(h.Plain()), len(h.Slots))
	})
}
