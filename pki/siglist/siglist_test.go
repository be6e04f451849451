package siglist

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"math/big"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"spore/pki/authenticode"
)

// Hash is a program's.
type Hash = authenticode.Hash

// hashes is a list of one owner.
func hashes(owner byte, h ...Hash) []byte { return EncodeHashes(uuid.UUID{owner}, h) }

// certificates are lists of n certificates.
func certificates(t testing.TB, n int) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	c, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	var out []Entry
	for range n {
		out = append(out, Entry{uuid.UUID{7}, c})
	}
	return EncodeCertificates(out)
}

func TestListsAreReadAsTheyWereWritten(t *testing.T) {
	all := append(certificates(t, 2), hashes(9, Hash{1}, Hash{2, 31: 3})...)
	got, err := Certificates(all)
	require.NoError(t, err)
	require.Len(t, got, 2, "hashes are passed over")
	require.Equal(t, uuid.UUID{7}, got[0].Owner)
	programs, err := Hashes(all)
	require.NoError(t, err)
	require.Equal(t, []Hash{{1}, {2, 31: 3}}, programs, "certificates are passed over")
}

func TestListsThatAreRefused(t *testing.T) {
	good := certificates(t, 1)
	put := func(off int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[off:], v)
		return b
	}
	for name, bad := range map[string][]byte{
		"cut in the header":         good[:20],
		"cut in the entry":          good[:100],
		"a size that is too small":  put(16, 10),
		"a size that is too large":  put(16, 1<<31),
		"a header that is too long": put(20, 1<<31),
		"entries of no size":        put(24, 0),
		"entries of an odd size":    put(24, 100),
		"no certificate":            append(bytes.Clone(good[:60]), make([]byte, len(good)-60)...),
		"too long":                  make([]byte, MaxSize+1),
		"too many":                  certificates(t, maxEntries+1),
	} {
		_, err := Certificates(bad)
		require.ErrorContains(t, err, "read signature lists", name)
	}
}

func TestListsOfHashesThatAreRefused(t *testing.T) {
	good := hashes(9, Hash{1})
	wide := bytes.Clone(good)
	wide[24] = 24 // the size of an entry
	short := append(bytes.Clone(good[:listHeader]), good[listHeader+8:]...)
	short[16], short[24] = byte(len(short)), byte(len(short)-listHeader)
	for name, data := range map[string][]byte{"cut short": good[:len(good)-1], "a header cut short": good[:9], "entries of another size": wide, "hashes of another length": short} {
		_, err := Hashes(data)
		require.ErrorContains(t, err, "read signature lists", name)
	}
}

func TestOnlyOneListOfHashes(t *testing.T) {
	require.NoError(t, CheckHashes(hashes(9, Hash{1})))
	for name, data := range map[string][]byte{
		"no list": nil, "an empty list": hashes(9), "two lists": append(hashes(9, Hash{1}), hashes(9, Hash{2})...), "certificates": certificates(t, 1),
		"cut short": hashes(9, Hash{1})[:40],
	} {
		require.ErrorIs(t, CheckHashes(data), errList, name)
		_, err := AddHashes(nil, data)
		require.ErrorIs(t, err, errList, name)
	}
}

func TestAddingHashesWritesWhatIsNew(t *testing.T) {
	c := certificates(t, 1)
	for name, tt := range map[string]struct{ have, want []byte }{
		"nothing is there":    {nil, hashes(9, Hash{1}, Hash{2})},
		"other kinds stay":    {c, append(bytes.Clone(c), hashes(9, Hash{1}, Hash{2})...)},
		"one is there":        {hashes(9, Hash{1}), append(hashes(9, Hash{1}), hashes(9, Hash{2})...)},
		"somebody else's are": {hashes(8, Hash{1}), append(hashes(8, Hash{1}), hashes(9, Hash{1}, Hash{2})...)},
		"all are there":       {hashes(9, Hash{2}, Hash{3}, Hash{1}), hashes(9, Hash{2}, Hash{3}, Hash{1})},
	} {
		before := bytes.Clone(tt.have)
		got, err := AddHashes(tt.have, hashes(9, Hash{1}, Hash{2}))
		require.NoError(t, err, name)
		require.Equal(t, tt.want, got, name)
		require.Equal(t, before, tt.have, name)
	}
	_, err := AddHashes(c[:30], hashes(9, Hash{1}))
	require.ErrorContains(t, err, "read signature lists")
}

func TestAWriteIsReadAsItWasMade(t *testing.T) {
	w := Write{Time: Time(time.Date(2026, 11, 25, 1, 2, 3, 4, time.FixedZone("", 3600))), Signature: []byte("signature"), Content: []byte("content")}
	require.Equal(t, []byte{0xea, 7, 11, 25, 0, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}, w.Time)
	got, err := ParseWrite(w.Encode())
	require.NoError(t, err)
	require.Equal(t, w, got)
	good := w.Encode()
	change := func(at int, b byte) []byte {
		out := bytes.Clone(good)
		out[at] = b
		return out
	}
	for name, data := range map[string][]byte{
		"nothing": nil, "cut in its head": good[:30], "a signature longer than all": change(17, 1), "one shorter than its head": change(16, 9),
		"another revision": change(20, 1), "another kind": change(22, 0), "another kind of signature": change(24, 0), "far too much": make([]byte, MaxSize+1),
	} {
		_, err := ParseWrite(data)
		require.Error(t, err, name)
	}
}

func FuzzLists(f *testing.F) {
	f.Add(certificates(f, 2), hashes(9, Hash{1}))
	f.Add(hashes(9, Hash{1}, Hash{2}), hashes(9, Hash{2}))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, data, more []byte) {
		if list, err := Certificates(data); err == nil {
			again, err := Certificates(EncodeCertificates(list))
			require.NoError(t, err)
			require.Len(t, again, len(list))
		}
		after, err := AddHashes(data, more)
		if err != nil {
			return
		}
		again, err := AddHashes(after, more)
		require.NoError(t, err)
		require.Equal(t, after, again, "what is there is not added")
		got, err := Hashes(after)
		require.NoError(t, err)
		added, err := Hashes(more)
		require.NoError(t, err)
		require.Subset(t, got, added)
	})
}

func FuzzParseWrite(f *testing.F) {
	f.Add(Write{Time: make([]byte, timeSize), Signature: []byte("signature"), Content: hashes(9, Hash{1})}.Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if w, err := ParseWrite(data); err == nil {
			require.Equal(t, data, w.Encode())
		}
	})
}
