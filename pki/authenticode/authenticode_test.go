package authenticode_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/pki/authenticode"
	"spore/test/testpe"
)

func someProgram() []byte {
	return testpe.Program(
		testpe.Section{Name: ".cmdline", Data: []byte("roothash=1")}, testpe.Section{Name: ".linux", Data: bytes.Repeat([]byte("k"), 3000)},
	)
}

func names(t *testing.T, program []byte) (out []string) {
	t.Helper()
	list, err := authenticode.Signers(bytes.NewReader(program), int64(len(program)))
	require.NoError(t, err)
	for _, c := range list {
		out = append(out, c.Subject.CommonName)
	}
	return out
}

func TestWhoSigned(t *testing.T) {
	plain := someProgram()
	require.Empty(t, names(t, plain))
	signed := testpe.Sign(plain, "plant")
	require.Equal(t, []string{"plant"}, names(t, signed))
	list, err := authenticode.Signers(bytes.NewReader(signed), int64(len(signed)))
	require.NoError(t, err)
	require.True(t, list[0].Equal(testpe.Signer("plant").Certificate))
	other := testpe.Sign(plain, "other")
	require.Equal(t, []string{"plant", "other"}, names(t, withEntry(signed, other[len(plain):])), "each of several")
}

// withEntry is a signed program with more behind its table of signatures, and in it.
func withEntry(signed, entry []byte) []byte {
	out := append(bytes.Clone(signed), entry...)
	at := out[testRow+4:]
	binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)+uint32(len(entry)))
	return out
}

// testRow is where the row of the table is in programs of testpe.
const testRow = 0x40 + 24 + 112 + 4*8

func TestASignatureThatDoesNotHold(t *testing.T) {
	plain := someProgram()
	signed := testpe.Sign(plain, "plant")
	flip := func(at int) []byte {
		b := bytes.Clone(signed)
		b[at] ^= 1
		return b
	}
	changed := bytes.Clone(plain)
	changed[1024] ^= 1
	certificate := testpe.Signer("plant").Certificate.Raw
	signature := bytes.LastIndex(signed, testpe.Signer("plant").Certificate.RawIssuer)
	le := binary.LittleEndian
	for name, tt := range map[string]struct {
		program []byte
		want    string
	}{
		"a byte of the command line":           {flip(1024), "was changed after it was signed"},
		"a byte of the last section":           {flip(len(plain) - 600), "was changed after it was signed"},
		"a byte of the header":                 {flip(0x30), "was changed after it was signed"},
		"the signature of another program":     {append(flip(1024)[:len(plain)], signed[len(plain):]...), "was changed after it was signed"},
		"a byte of the signature itself":       {flip(signature + 200), "was not made with its certificate"},
		"the certificate of somebody else":     {bytes.Replace(signed, certificate, sameLength(t), 1), "was not made with its certificate"},
		"one that does not hold beside a good": {withEntry(signed, testpe.Sign(changed, "other")[len(plain):]), "does not hold"},
		"what is behind it, and no signature":  {withEntry(signed, bytes.Repeat([]byte{0x41}, 16)), "an entry of 1094795585 bytes cannot be"},
		"what is behind the table":             {append(bytes.Clone(signed), 0, 0, 0, 0, 0, 0, 0, 0), "is not its end"},
		"no program":                           {[]byte("text"), "too short"},
		"a text":                               {bytes.Repeat([]byte("text"), 999), "its header is wrong"},
		"another kind of signature": {func() []byte {
			b := bytes.Clone(signed)
			le.PutUint16(b[len(plain)+6:], 1)
			return b
		}(), "of another kind than PKCS #7"},
		"a gap between sections": {func() []byte {
			b := bytes.Clone(signed)
			le.PutUint32(b[0x40+24+240+40+20:], le.Uint32(b[0x40+24+240+40+20:])+512)
			return b
		}(), "a gap between sections"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := authenticode.Signers(bytes.NewReader(tt.program), int64(len(tt.program)))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// sameLength is the certificate of another key, with the issuer and the serial of the one that signed.
func sameLength(t *testing.T) []byte {
	t.Helper()
	raw := bytes.Clone(testpe.Signer("plant").Certificate.Raw)
	modulus := testpe.Signer("plant").Key.N.Bytes()
	at := bytes.Index(raw, modulus)
	require.Positive(t, at)
	copy(raw[at:], testpe.Signer("other").Key.N.Bytes())
	return raw
}

func TestWhatIsNoProgramHasNoHash(t *testing.T) {
	for name, data := range map[string][]byte{"nothing": nil, "text": []byte("MZ no program"), "zeros": make([]byte, 4096)} {
		_, err := authenticode.HashOf(bytes.NewReader(data), int64(len(data)))
		require.ErrorContains(t, err, "hash a program", name)
	}
	plain := someProgram()
	want, err := authenticode.HashOf(bytes.NewReader(plain), int64(len(plain)))
	require.NoError(t, err)
	signed := testpe.Sign(plain, "plant")
	got, err := authenticode.HashOf(bytes.NewReader(signed), int64(len(signed)))
	require.NoError(t, err)
	require.Equal(t, want, got, "the signature is not part of it")
}

func FuzzSigners(f *testing.F) {
	plain := someProgram()
	f.Add(plain)
	f.Add(testpe.Sign(plain, "plant"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, hashErr := authenticode.HashOf(bytes.NewReader(data), int64(len(data)))
		list, err := authenticode.Signers(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		require.NoError(t, hashErr)
		for _, c := range list {
			require.NotNil(t, c)
		}
	})
}
