package tpm

import (
	"bytes"
	"crypto/rsa"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"math/big"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestARegisterIsReadAsTheKernelShowsIt(t *testing.T) {
	const name = "sys/class/tpm/tpm0/pcr-sha256/7"
	good := strings.Repeat("0A", 32)
	d, err := Read(fstest.MapFS{name: {Data: []byte(good + "\n")}}, Keys)
	require.NoError(t, err)
	require.Equal(t, strings.ToLower(good), d.String())
	_, err = Read(fstest.MapFS{}, Keys)
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, text := range []string{"", good[2:], good + "00", "zz" + good[2:], strings.Repeat(good, 9)} {
		_, err := Read(fstest.MapFS{name: {Data: []byte(text)}}, Keys)
		require.ErrorContains(t, err, "which is no SHA-256", text)
	}
}

// device answers one command.
type device struct {
	asked, answer []byte
	err           error
}

func (d *device) Write(p []byte) (int, error) { d.asked = bytes.Clone(p); return len(p), d.err }
func (d *device) Read(p []byte) (int, error)  { return copy(p, d.answer), nil }

// answer is a response with a code.
func answer(tag uint16, code uint32) []byte {
	be := binary.BigEndian
	return be.AppendUint32(be.AppendUint32(be.AppendUint16(nil, tag), headerSize), code)
}

func TestExtendAsksAndLooksAtTheAnswer(t *testing.T) {
	d := &device{answer: answer(sessions, 0)}
	require.NoError(t, Extend(d, Image, []byte("abc")))
	require.Equal(t, "8002"+"00000041"+"00000182"+"0000000b"+"00000009"+"40000009"+"0000"+"00"+"0000"+"00000001"+"000b"+
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", hex.EncodeToString(d.asked))
	for name, c := range map[string]struct {
		device device
		want   string
	}{
		"it refuses":             {device{answer: answer(noSessions, 0x921)}, "refused with code 0x921"},
		"it says nothing":        {device{}, "0 bytes that are not an answer"},
		"half an answer":         {device{answer: answer(sessions, 0)[:9]}, "are not an answer"},
		"another length":         {device{answer: append(answer(sessions, 0), 0)}, "are not an answer"},
		"another kind of answer": {device{answer: answer(0x1234, 0)}, "are not an answer"},
		"it is gone":             {device{err: errors.New("input/output error")}, "extend PCR 11: input/output error"},
	} {
		require.ErrorContains(t, Extend(&c.device, Image, nil), c.want, name)
	}
}

func TestOnlyRSAKeysSignPCR11(t *testing.T) {
	for text, want := range map[string]string{
		"": "not PEM",
		"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n":                                                         "the key that signs PCR 11: ",
		"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n": "no RSA key",
	} {
		_, err := PublicKey([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

func TestAPolicyIsKnownByEachWayToWriteItsKey(t *testing.T) {
	p := Policy{Signer: &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 2047), E: defaultExponent}, Keys: Digest{1}}
	require.True(t, p.Is(p.digest(0).String()))
	require.True(t, p.Is(p.digest(defaultExponent).String()))
	require.NotEqual(t, p.digest(0), p.Digest())
	for name, other := range map[string]Policy{"other keys": {Signer: p.Signer, Keys: Digest{2}}, "a PIN": {Signer: p.Signer, Keys: p.Keys, PIN: true}} {
		require.False(t, other.Is(p.Digest().String()), name)
	}
	p.Signer.E = 3
	require.False(t, p.Is(p.digest(0).String()), "zero stands for 65537 alone")
}

func TestWhatComesFromOutsideHasToBeNothing(t *testing.T) {
	require.Equal(t, "7:sha256="+strings.Repeat("00", 31)+"01+12:sha256="+strings.Repeat("00", 32), Policy{Keys: Digest{31: 1}}.PCRs())
}
