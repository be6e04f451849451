package carry

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"spore/builder/payload"
	"spore/builder/store"
)

func sumOf(text string) *payload.Sum {
	h := sha256.Sum256([]byte(text))
	return &payload.Sum{Size: int64(len(text)), SHA256: hex.EncodeToString(h[:])}
}

// pinned are a program and a jar.
func pinned() []payload.Program {
	return []payload.Program{
		{Name: "cni/bridge", Payload: "cni", Compiled: true, Key: store.KeyOf("bridge"), Sum: sumOf("a program")},
		{Name: "kafka/raft-4.1.0.jar", Payload: "kafka", Artifact: &payload.Artifact{}, Key: store.KeyOf("raft"), Sum: sumOf("a jar")},
	}
}

// storeWith keeps a text under the key of each program; an empty one is not there.
func storeWith(t testing.TB, programs []payload.Program, texts ...string) *store.Store {
	t.Helper()
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	for i, text := range texts {
		if text != "" {
			require.NoError(t, st.Put(programs[i].Key, func(w *os.File) error { _, err := io.WriteString(w, text); return err }))
		}
	}
	return st
}

func exported(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	r, err := Export(&out, storeWith(t, pinned(), "a program", "a jar"), pinned())
	require.NoError(t, err)
	require.Equal(t, Result{Programs: 1, Jars: 1, Size: 14}, r)
	return out.Bytes()
}

func TestWhatIsImportedIsWhatWasExported(t *testing.T) {
	archive := exported(t)
	require.Equal(t, archive, exported(t), "the same programs make the same archive")
	st := storeWith(t, nil)
	r, err := Import(bytes.NewReader(archive), st, pinned())
	require.NoError(t, err)
	require.Equal(t, Result{Programs: 1, Jars: 1, Size: 14}, r)
	for i, want := range []string{"a program", "a jar"} {
		got, err := st.ReadAll(pinned()[i].Key)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	r, err = Import(bytes.NewReader(archive), st, pinned())
	require.NoError(t, err)
	require.Equal(t, Result{Present: 2}, r)
}

func TestWhatIsNotThereOrNotPinnedIsLeftOut(t *testing.T) {
	programs := pinned()
	programs[1].Sum = nil
	more := append(programs, payload.Program{Name: "etcd", Compiled: true, Key: store.KeyOf("etcd"), Sum: sumOf("etcd")})
	var out bytes.Buffer
	r, err := Export(&out, storeWith(t, programs, "a program", "a jar"), more)
	require.NoError(t, err)
	require.Equal(t, Result{Programs: 1, Size: 9, Missing: []string{"etcd"}, Unpinned: []string{"kafka/raft-4.1.0.jar"}}, r)

	other := pinned()
	other[0].Key = store.KeyOf("bridge of a newer pin")
	st := storeWith(t, nil)
	r, err = Import(bytes.NewReader(exported(t)), st, other)
	require.NoError(t, err)
	require.Equal(t, Result{Jars: 1, Size: 5, Unpinned: []string{"cni/bridge"}}, r)
	require.False(t, st.Has(pinned()[0].Key), "nothing is kept that nobody asked for")

	_, err = Import(bytes.NewReader(exported(t)), st, other[:1])
	require.ErrorIs(t, err, ErrNothing)
	_, err = Export(io.Discard, storeWith(t, nil), pinned())
	require.ErrorIs(t, err, ErrNothing)
}

func TestOtherBytesAreRefused(t *testing.T) {
	for _, text := range []string{"a progrAm", "a longer program"} {
		_, err := Export(io.Discard, storeWith(t, pinned(), text), pinned())
		require.ErrorContains(t, err, "export cni/bridge: it has ")
		require.ErrorContains(t, err, "damaged or forged")

		forged := pinned()
		forged[0].Sum = sumOf(text)
		var out bytes.Buffer
		_, err = Export(&out, storeWith(t, forged, text), forged[:1])
		require.NoError(t, err)
		st := storeWith(t, nil)
		_, err = Import(&out, st, pinned())
		require.ErrorContains(t, err, "import cni/bridge: it has ")
		require.ErrorContains(t, err, "damaged or forged")
		require.False(t, st.Has(pinned()[0].Key))
	}
}

// packed is an archive of one member.
func packed(t testing.TB, header tar.Header, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	w := tar.NewWriter(z)
	header.Size = int64(len(text))
	require.NoError(t, w.WriteHeader(&header))
	_, err = io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return out.Bytes()
}

func TestWhatIsNoArchive(t *testing.T) {
	whole := exported(t)
	key := store.KeyOf("x").String()
	for name, data := range map[string][]byte{
		"nothing":         {},
		"no Zstandard":    []byte("hello"),
		"cut off":         whole[:len(whole)-20],
		"another name":    packed(t, tar.Header{Name: "etc/passwd", Mode: 0o644}, "x"),
		"a way out of it": packed(t, tar.Header{Name: "../" + key, Mode: 0o644}, "x"),
		"a terminal":      packed(t, tar.Header{Name: "\x1b[2J/" + key, Mode: 0o644}, "x"),
		"a folder":        packed(t, tar.Header{Name: "a/" + key, Mode: 0o755, Typeflag: tar.TypeDir}, ""),
		"a link":          packed(t, tar.Header{Name: "a/" + key, Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}, ""),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Import(bytes.NewReader(data), storeWith(t, nil), pinned())
			require.Error(t, err)
			if name != "nothing" {
				require.ErrorContains(t, err, "it is damaged, or was not written by spore cache export")
			}
		})
	}
}

func FuzzMembers(f *testing.F) {
	f.Add(exported(f))
	f.Add(packed(f, tar.Header{Name: "a/" + store.KeyOf("x").String(), Mode: 0o644}, "x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = members(bytes.NewReader(data), func(name string, size int64, content io.Reader) error {
			require.Regexp(t, member, name)
			n, err := io.Copy(io.Discard, content)
			if err == nil {
				require.Equal(t, size, n)
			}
			return err
		})
	})
}
