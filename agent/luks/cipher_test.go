package luks

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rewrite replaces a text in one copy of the header and makes its checksum anew, as whoever has the disk in hand could.
func rewrite(t *testing.T, f *os.File, at int64, edit func(header []byte) []byte) {
	t.Helper()
	b := make([]byte, minHeader)
	_, err := f.ReadAt(b, at)
	require.NoError(t, err)
	was := bytes.Clone(b)
	b = edit(b)
	require.NotEqual(t, was, b)
	b = append(b, make([]byte, max(0, minHeader-len(b)))...)[:minHeader]
	clear(b[448:512])
	sum := sha256.Sum256(b)
	copy(b[448:], sum[:])
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
}

func replace(old, text string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(text), 1) }
}

func TestAVolumeThatSaysThatNothingIsEncryptedIsRefused(t *testing.T) {
	const slot, data = `"area":{"type":"raw","offset":"32768","size":"258048","encryption":"aes-xts-plain64"`, `"iv_tweak":"0","encryption":"aes-xts-plain64"`
	for name, tc := range map[string]struct {
		edit func([]byte) []byte
		want string
	}{
		"data without a cipher":       {replace(data, strings.Replace(data, "aes-xts-plain64", "cipher_null-ecb", 1)), `the cipher "cipher_null-ecb", not`},
		"data as it lies there":       {replace(`"type":"crypt"`, `"type":"linear"`), `has the type "linear"`},
		"a key slot without a cipher": {replace(slot, strings.Replace(slot, "aes-xts-plain64", "cipher_null-ecb", 1)), `its key slot "0" has the type "luks2", the cipher "cipher_null-ecb"`},
		"a cipher that is weaker":     {replace(data, strings.Replace(data, "aes-xts-plain64", "aes-ecb", 1)), `"aes-ecb"`},
		"keys that are shorter":       {replace(`"key_size":64`, `"key_size":16`), "keys of "},
		"a volume in the making":      {replace(`"config":{`, `"config":{"requirements":{"mandatory":["online-reencrypt-v2"]},`), "it is being encrypted anew"},
		"two segments":                {replace(`"segments":{`, `"segments":{"1":{"type":"crypt","offset":"20971520","size":"4096","encryption":"aes-xts-plain64"},`), "it has 2 segments"},
		"no segment":                  {replace(`"segments":{`, `"segments":{},"other":{`), "it has 0 segments"},
		"a cipher said twice":         {replace(data, strings.Replace(data, "aes-xts-plain64", "cipher_null-ecb", 1)+`,"encryption":"aes-xts-plain64"`), `it says "encryption" twice`},
		"a cipher in capitals":        {replace(data, strings.Replace(data, "aes-xts-plain64", "cipher_null-ecb", 1)+`,"Encryption":"aes-xts-plain64"`), `it says "encryption" twice`},
		"another checksum":            {func(b []byte) []byte { copy(b[72:], "sha512"); return b }, "its checksum is not SHA-256"},
		"version 1":                   {func(b []byte) []byte { binary.BigEndian.PutUint16(b[6:], 1); return b }, "its version is 1, not 2"},
	} {
		for copyName, at := range map[string]int64{"first": 0, "second": minHeader} {
			t.Run(name+", "+copyName+" copy", func(t *testing.T) {
				f := volume(t)
				require.NoError(t, CheckCipher(f))
				rewrite(t, f, at, tc.edit)
				require.ErrorContains(t, CheckCipher(f), tc.want)
			})
		}
	}
}

func TestADamagedCopyIsNoReasonToRefuse(t *testing.T) {
	for _, damage := range []func(*testing.T, *os.File){flip(5000), zero(0, 16<<10), flip(21000), zero(16<<10, 16<<10)} {
		f := volume(t)
		damage(t, f)
		require.NoError(t, CheckCipher(f))
	}
	require.ErrorIs(t, CheckCipher(bytes.NewReader(make([]byte, 1<<20))), ErrNone)
	require.ErrorIs(t, CheckCipher(strings.NewReader("LU")), ErrNone)
}

// FuzzCipher lets no text through that says of another cipher.
func FuzzCipher(f *testing.F) {
	f.Add([]byte(`{"keyslots":{"0":{"type":"luks2","key_size":64,"area":{"encryption":"aes-xts-plain64","key_size":64}}},"segments":{"0":{"type":"crypt","encryption":"aes-xts-plain64"}}}`))
	f.Add([]byte(`{"segments":{"0":{"type":"crypt","encryption":"cipher_null-ecb"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if checkText(text) == nil {
			require.NotContains(t, string(text), "linear\"")
			_, _ = parse(text)
		}
	})
}
