package sealing

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

func key(t testing.TB) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	return id
}

func header(db []byte) Header {
	sum := sha256.Sum256(db)
	return Header{
		Cluster: "c", Node: "master-1", Taken: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Revision: 7, Keys: 3,
		Size: int64(len(db)), SHA256: hex.EncodeToString(sum[:]),
	}
}

func seal(t testing.TB, id *age.X25519Identity, db []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, Seal(&out, id, header(db), bytes.NewReader(db)))
	return out.Bytes()
}

func open(id *age.X25519Identity, sealed []byte) ([]byte, Header, error) {
	h, r, err := Open(bytes.NewReader(sealed), id)
	if err != nil {
		return nil, h, err
	}
	defer r.Close()
	db, err := io.ReadAll(r)
	return db, h, err
}

func TestWhatWasSealedOpens(t *testing.T) {
	id := key(t)
	db := bytes.Repeat([]byte("a database "), 100_000)
	sealed := seal(t, id, db)
	require.Less(t, len(sealed), len(db)/10)
	got, h, err := open(id, sealed)
	require.NoError(t, err)
	require.True(t, bytes.Equal(db, got))
	want := header(db)
	want.Version = 1
	require.Equal(t, want, h)
	require.NotContains(t, string(sealed), id.Recipient().String()[5:], "nobody learns for whom it is")

	t.Run("with age and any decompressor", func(t *testing.T) {
		plain, err := age.Decrypt(bytes.NewReader(sealed), id)
		require.NoError(t, err)
		d, err := zstd.NewReader(plain)
		require.NoError(t, err)
		defer d.Close()
		got, err := io.ReadAll(d)
		require.NoError(t, err)
		require.True(t, bytes.Equal(db, got))
	})
}

func TestWhatDoesNotOpen(t *testing.T) {
	id := key(t)
	db := make([]byte, 300<<10)
	_, _ = rand.Read(db)
	sealed := seal(t, id, db)
	for cut := 0; cut < len(sealed); cut += 1 + len(sealed)/97 {
		_, _, err := open(id, sealed[:cut])
		require.Error(t, err, "cut off after %d bytes", cut)
	}
	for i := 0; i < len(sealed); i += 1 + len(sealed)/97 {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		_, _, err := open(id, bad)
		require.Error(t, err, "byte %d is another", i)
	}
	_, _, err := open(id, append(bytes.Clone(sealed), 0))
	require.Error(t, err, "something follows")
	_, _, err = open(key(t), sealed)
	require.ErrorContains(t, err, "another key")
}

// craft encrypts what Seal would not write.
func craft(t *testing.T, id *age.X25519Identity, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := age.Encrypt(&out, id.Recipient())
	require.NoError(t, err)
	_, err = w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestHeaders(t *testing.T) {
	id := key(t)
	frame := func(magic uint32, size int, text string) []byte {
		b := binary.LittleEndian.AppendUint32(nil, magic)
		return append(binary.LittleEndian.AppendUint32(b, uint32(size)), text...)
	}
	whole := `{"version":1,"cluster":"c","node":"n","taken":"2026-11-22T12:00:00Z","revision":1,"size":5,"sha256":"` + strings.Repeat("0", 64) + `"}`
	for _, tt := range []struct {
		name, want string
		plain      []byte
	}{
		{"nothing", "its header: EOF", nil},
		{"a database alone", "no header as spore makes them", make([]byte, 100)},
		{"too long", "no header as spore makes them", frame(headerMagic, maxHeader+1, "")},
		{"cut off", "unexpected EOF", frame(headerMagic, 100, "{}")},
		{"no JSON", "invalid character", frame(headerMagic, 1, "x")},
		{"of a later version", "of version 2", frame(headerMagic, 13, `{"version":2}`)},
		{"of nothing", "incomplete", frame(headerMagic, 13, `{"version":1}`)},
		{"without a database", "not the 5 bytes", frame(headerMagic, len(whole), whole)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := open(id, craft(t, id, tt.plain))
			require.ErrorContains(t, err, tt.want)
		})
	}
	t.Run("a database that is longer than it says", func(t *testing.T) {
		var packed bytes.Buffer
		w, err := zstd.NewWriter(&packed)
		require.NoError(t, err)
		_, err = w.Write(make([]byte, 1<<20))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		_, _, err = open(id, craft(t, id, append(frame(headerMagic, len(whole), whole), packed.Bytes()...)))
		require.ErrorContains(t, err, "not the 5 bytes")
	})
}

func TestSealingWhatChangesMeanwhile(t *testing.T) {
	h := header([]byte("database"))
	require.ErrorContains(t, Seal(io.Discard, key(t), h, strings.NewReader("databasE")), "not the hash")
	require.ErrorContains(t, Seal(io.Discard, key(t), h, strings.NewReader("databas")), "not the 8 bytes")
	require.ErrorContains(t, Seal(io.Discard, key(t), h, strings.NewReader("database!")), "not the 8 bytes")
}

func TestKeys(t *testing.T) {
	id := key(t)
	got, err := Identity([]byte(id.String() + "\n"))
	require.NoError(t, err)
	require.Equal(t, id.String(), got.String())
	for _, bad := range []string{"", "hunter2", id.Recipient().String(), strings.ToLower(id.String()), id.String()[:40]} {
		_, err := Identity([]byte(bad))
		require.ErrorContains(t, err, "not a key of age")
		if len(bad) > 10 {
			require.NotContains(t, err.Error(), bad[10:])
		}
	}
}

func FuzzReadHeader(f *testing.F) {
	f.Add([]byte("\x5e\x2a\x4d\x18\x02\x00\x00\x00{}"))
	whole := `{"version":1,"cluster":"c","node":"n","taken":"2026-11-22T12:00:00Z","revision":1,"size":5,"sha256":"` + strings.Repeat("0", 64) + `"}`
	f.Add(append([]byte{0x5e, 0x2a, 0x4d, 0x18, byte(len(whole)), 0, 0, 0}, whole...))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := readHeader(bytes.NewReader(data))
		if err == nil {
			require.NotEmpty(t, h.Cluster)
			require.Positive(t, h.Size)
		}
	})
}
